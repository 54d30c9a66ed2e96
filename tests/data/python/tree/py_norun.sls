#!py
def states():
    return {}
