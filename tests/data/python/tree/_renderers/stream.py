"""Returns a stream, as the oldest ones do."""
import io


def render(data, saltenv="base", sls="", argline="", **kwargs):
    text = data if isinstance(data, str) else data.read()
    return io.StringIO(text.replace("LATER", "now"))
