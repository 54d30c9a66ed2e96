{% if grains.os == "x" %}
a: 1
{% endfor %}
