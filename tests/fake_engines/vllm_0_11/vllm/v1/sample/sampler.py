class Sampler:
    def forward(self, logits, sampling_metadata):
        return logits
