"""Small stand-ins for SGLang, vLLM and TensorRT-LLM, by version: real names, simulated numbers.

Each folder is put on `sys.path` of a process of its own, where its packages are called as the real
ones. `tests.nvtx_hooks.fakes` starts them and reads what their hooks recorded.
"""
