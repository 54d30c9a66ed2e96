"""Takes a native module's place too, to see that its other functions are gone."""


def corpus_name():
    return "system of the corpus"
