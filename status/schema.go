package status

import _ "embed" // schema.json

// Schema is the JSON Schema (2020-12) of Report. It allows fields that it does
// not name, because later releases add some.
//
//go:embed schema.json
var Schema string
