class CudaGraphManager:
    def run_fullgraph(self, desc):
        return None
