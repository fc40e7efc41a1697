class CUDAGraphRunner:
    def __init__(self, config):
        self.graphs = {}

    def capture(
        self, key, forward_fn, initial_inputs, enable_spec_decode=False, postprocess_fn=None
    ):
        forward_fn(initial_inputs)
        self.graphs[key] = forward_fn

    def replay(self, key, current_inputs):
        return self.graphs[key](current_inputs)
