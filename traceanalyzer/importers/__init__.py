"""From files to one Trace: each format is recognised by its content, never by its name.

A format is a module with `recognises(path, head)` and `read(path, progress)`; `nsys_report` is
the exception, which turns a report into an export that another format reads.
"""
