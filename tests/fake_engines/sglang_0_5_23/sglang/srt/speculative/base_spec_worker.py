class BaseSpecWorker:
    def on_verify_complete_cpu(self, num_correct_drafts_per_req, batch_size=0):
        pass
