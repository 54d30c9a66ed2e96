"""An import of a part of Salt that is gone."""
import salt.ext.six as six


def run():
    return six.text_type("never")
