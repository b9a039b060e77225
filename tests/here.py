"""Requests that leave from an address of one's own: the embedded clouds know a machine by it."""

import types
import urllib.error
import urllib.parse
import urllib.request
from http.client import HTTPConnection
from typing import Any


def urllib_from(address: str) -> Any:
    """What a program takes for the module urllib, whose requests come from this address."""

    class FromHere(urllib.request.HTTPHandler):
        def http_open(self, request: urllib.request.Request) -> Any:
            def connect(host: str, **more: Any) -> HTTPConnection:
                return HTTPConnection(host, **more, source_address=(address, 0))

            return self.do_open(connect, request)

    request = types.SimpleNamespace(Request=urllib.request.Request, urlopen=urllib.request.build_opener(FromHere).open)
    return types.SimpleNamespace(request=request, error=urllib.error, parse=urllib.parse)
