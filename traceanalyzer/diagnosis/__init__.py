"""What is wrong with a capture, and how to record it better: one small function a finding."""
