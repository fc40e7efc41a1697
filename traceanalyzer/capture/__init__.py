"""Recording a server under Nsight Systems without disturbing it more than has to be."""
