role: {{ grains.get("role", "none") }}
key: {{ salt["vault.read_secret"]("a") }}
