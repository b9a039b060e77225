"""The embedded DigitalOcean: version 2 of its API, by DigitalOcean's own OpenAPI document (openapi.json), over hosts of the rehearsal."""
