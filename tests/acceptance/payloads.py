"""Texts that would run a script if a page took them for more than text. Each calls ``hit()`` in its own way."""

from __future__ import annotations

from itertools import product

_CALLS = ("hit()", "window['hit']()", "top.hit``", "eval('hit()')", "setTimeout('hit()')")
_TAGS = (
    *("img src=x", "svg", "body", "video src=x", "audio src=x", "details open", "input autofocus", "iframe", "object"),
    *("marquee", "select autofocus", "textarea autofocus", "style", "link rel=stylesheet href=x", "embed src=x"),
    *("math", "x contenteditable", "a href=x", "form", "button autofocus"),
)
_EVENTS = ("onerror", "onload", "onfocus", "ontoggle", "onanimationstart", "onmouseover")
_FRAMES = (
    "<script>{}</script>",
    "<ScRiPt>{}</sCrIpT>",
    "<script src=data:text/javascript,{}></script>",
    "</title><script>{}</script>",
    "</textarea><script>{}</script>",
    "</script><script>{}</script>",
    "--><script>{}</script>",
    "]]><script>{}</script>",
    "\"><script>{}</script>",
    "'><script>{}</script>",
    "\" autofocus onfocus=\"{}\" x=\"",
    "' autofocus onfocus='{}' x='",
    "<iframe srcdoc=\"<script>parent.{}</script>\"></iframe>",
    "<svg><script>{}</script></svg>",
    "<svg><animate onbegin={} attributeName=x dur=1s>",
    "<svg><a xlink:href=\"javascript:{}\"><text>x</text></a></svg>",
    "<math><mtext><table><mglyph><style><img src=x onerror={}>",
    "<noscript><p title=\"</noscript><img src=x onerror={}>\">",
    "<template><script>{}</script></template>",
    "[x](javascript:{})",
    "[x](JaVaScRiPt:{})",
    "[x](java&#x0A;script:{})",
    "[x](data:text/html;base64,PHNjcmlwdD5oaXQoKTwvc2NyaXB0Pg== \"{}\")",
    "![x](x\" onerror=\"{})",
    "![x](javascript:{})",
    "[x]: javascript:{}\n\n[x]",
    "<javascript:{}>",
    "`<img src=x onerror={}>`",
    "```html\n<img src=x onerror={}>\n```",
    "| a |\n|---|\n| <img src=x onerror={}> |",
    "{{{{ {} }}}}",
    "{{% {} %}}",
    "${{{}}}",
    "<div hx-get=/ hx-trigger=load hx-on::load=\"{}\">",
    "<div hx-ext=sse sse-connect=/live/inbox hx-on:sse-open=\"{}\">",
    "<base href=//elsewhere.example><script src=x>{}</script>",
    "<meta http-equiv=refresh content=\"0;url=javascript:{}\">",
    "<form action=javascript:{}><button>x</button></form>",
    "<a href=\"javascript:{}\">x</a>",
    "<img src=x onerror=&#104;&#105;&#116;&#40;&#41; alt=\"{}\">",
)  # fmt: skip

PAYLOADS = tuple(
    dict.fromkeys(
        [
            *(
                f"<{tag} {event}={call}>"
                for (tag, event), call in zip(product(_TAGS, _EVENTS), _CALLS * 24, strict=True)
            ),
            *(frame.format(call) for frame, call in product(_FRAMES, _CALLS[:3])),
        ]
    )
)
