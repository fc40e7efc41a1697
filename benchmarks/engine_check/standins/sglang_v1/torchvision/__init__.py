"""Import-only stand-in for torchvision, which has no build beside this CPU torch.

It has no metadata on purpose: transformers then takes torchvision to be absent.
"""

import absent

__version__ = "0.0.0"
__getattr__ = absent.absent_in(__name__)
absent.Submodules(__name__)
