class EAGLEDraftCudaGraphRunner:
    def __init__(self, eagle_worker):
        self.eagle_worker = eagle_worker
        self.capture()

    def capture(self):
        self.eagle_worker.draft_forward("buffers")
