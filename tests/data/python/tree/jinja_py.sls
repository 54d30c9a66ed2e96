#!jinja|py
def run():
    return {"{{ grains.kernel }}": {"test.nop": [{"name": "{{ salt['shape_plain.greet']('both') }}"}]}}
