class ScheduledRequests:
    def __init__(self):
        self.context_requests = []
        self.generation_requests = []
        self.paused_requests = []

    @property
    def batch_size(self):
        return len(self.context_requests) + len(self.generation_requests)

    def all_requests(self):
        return self.context_requests + self.generation_requests
