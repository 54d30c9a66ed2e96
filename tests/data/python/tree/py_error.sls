#!py
def run():
    return {}["absent"]
