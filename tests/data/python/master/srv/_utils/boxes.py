def pack(thing):
    return "[%s]" % thing
