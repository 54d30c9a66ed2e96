#!py


def run():
    return {}
