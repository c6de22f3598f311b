"""`/docs`: the routes of the OpenAPI document as one plain page, without a word from elsewhere."""

from html import escape
from typing import Any

STYLE = "/docs/style.css"
CSS = """:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { max-width: 60rem; margin: 0 auto; padding: 1rem; }
h2 { font-size: 1.1rem; margin-top: 2rem; }
code, pre { font: 0.9rem/1.4 ui-monospace, monospace; overflow-wrap: anywhere; }
pre { overflow-x: auto; padding: 0.5rem; border: 1px solid; border-radius: 0.3rem; }
table { border-collapse: collapse; }
td, th { padding: 0.2rem 1rem 0.2rem 0; text-align: left; vertical-align: top; }
"""
_INTRODUCTION = """<p>Machines read the same in <a href="/openapi.json">openapi.json</a>.</p>
<pre>curl -F files=@photo.jpg {address}v1/caption</pre>"""


def page_of(document: dict[str, Any], address: str) -> str:
    """The page.

    Args:
        document: as FastAPI makes it.
        address: of the server, with a slash at its end.
    """
    parts = [
        _route(path, method, told)
        for path, methods in document["paths"].items()
        for method, told in methods.items()
    ]
    title = escape(document["info"]["title"])
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<link rel="stylesheet" href="{STYLE}"></head><body><main><h1>{title}</h1>'
        f"{_INTRODUCTION.format(address=escape(address))}{''.join(parts)}</main></body></html>"
    )


def _route(path: str, method: str, told: dict[str, Any]) -> str:
    """One route: what it does, what it takes, how it may end."""
    text = escape(told.get("summary", ""))
    more = escape(told.get("description", ""))
    takes = "".join(
        f"<li><code>{escape(kind)}</code>{_fields(body.get('schema', {}))}</li>"
        for kind, body in told.get("requestBody", {}).get("content", {}).items()
    )
    ends = "".join(
        f"<tr><th scope=row>{escape(status)}</th><td>{escape(how.get('description', ''))}</td></tr>"
        for status, how in told.get("responses", {}).items()
    )
    return (
        f"<section><h2><code>{method.upper()} {escape(path)}</code></h2><p>{text}</p>"
        + (f"<p>{more}</p>" if more else "")
        + (f"<p>Takes:</p><ul>{takes}</ul>" if takes else "")
        + f"<table><tbody>{ends}</tbody></table></section>"
    )


def _fields(schema: dict[str, Any]) -> str:
    names = ", ".join(f"<code>{escape(name)}</code>" for name in schema.get("properties", {}))
    return f": {names}" if names else ""
