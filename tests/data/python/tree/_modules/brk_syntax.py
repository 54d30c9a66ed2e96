"""Python 2's syntax."""


def run():
    print "from another time"
