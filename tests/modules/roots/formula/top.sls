a: {{ salt['test.echo']('x') }}
{% include 'formula/part' %}
