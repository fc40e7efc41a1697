"""Which part of speculative decoding each range, launch and op of a trace belongs to."""
