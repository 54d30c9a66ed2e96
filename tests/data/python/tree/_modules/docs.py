"""The module's own documentation.

:depends: nothing
"""


def example(first, second="b"):
    """
    One line about it.

    first
        The first.

    CLI Example:

    .. code-block:: bash

        salt '*' docs.example a
        salt '*' docs.example a second=c
    """
    return [first, second]


def short():
    "A short one."


def none():
    return None


def raw():
    r"""A raw one with \d and "quotes"."""


def wide():
    """
    Grüße: \u4f60\u597d

	a tab
    """


def versions():
    """
    .. versionadded:: 3000

    Text after it.
    """
