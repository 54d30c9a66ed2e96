def returner(ret):
    raise OSError("the book is closed")
