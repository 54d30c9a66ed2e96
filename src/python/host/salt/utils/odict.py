"""The older name of `salt.utils.datastructures`."""
from collections import OrderedDict  # noqa: F401

from salt.utils.datastructures import DefaultOrderedDict, HashableOrderedDict  # noqa: F401
