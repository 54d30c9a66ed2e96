"""Older names of Python's own modules."""
import ipaddress  # noqa: F401
from xml.etree import ElementTree  # noqa: F401
