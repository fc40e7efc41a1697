"""A small, real EAGLE-3 pipeline in PyTorch: the demo without a server, and what tests instrument.

It holds no profiling of its own: hooks are put around `engine.Engine`'s methods from outside, as
they are around a real engine's. Importing this package imports no torch; its modules do.
"""
