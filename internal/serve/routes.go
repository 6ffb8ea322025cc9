package serve

import (
	_ "embed"
	"net/http"
)

// route is what is done for one method of a path.
type route struct {
	do   func(*call) error
	open bool // whoever asks
}

// openAPI describes the routes, in OpenAPI 3.1.
//
//go:embed openapi.json
var openAPI []byte

// What is asked about one process, and about files, of a sandbox.
type (
	processRoutes struct{ *Server }
	fileRoutes    struct{ *Server }
)

// routes are all paths, as [http.ServeMux] has them, and what is done there.
func (s *Server) routes() map[string]map[string]route {
	get := func(do func(*call) error) map[string]route { return map[string]route{http.MethodGet: {do: do}} }
	post := func(do func(*call) error) map[string]route { return map[string]route{http.MethodPost: {do: do}} }
	process, file, change, snapshot := processRoutes{s}, fileRoutes{s}, changeRoutes{s}, snapshotRoutes{s}
	const box = "/v1/sandboxes/{id}"
	return map[string]map[string]route{
		"/v1/healthz":      {http.MethodGet: {do: health, open: true}},
		"/v1/version":      get(s.version),
		"/v1/metrics":      get(s.metrics),
		"/v1/openapi.json": get(s.describe),
		"/v1/pools":        get(poolRoutes{s}.list),
		"/v1/runs":         post(s.once(s.run)),
		"/v1/sandboxes": {
			http.MethodGet:  {do: s.list},
			http.MethodPost: {do: s.once(s.create)},
		},
		box: {
			http.MethodGet:    {do: s.show},
			http.MethodPatch:  {do: s.change},
			http.MethodDelete: {do: s.remove},
		},
		"/v1/snapshots": get(snapshot.list),
		"/v1/snapshots/{snapshot}": {
			http.MethodGet:    {do: snapshot.download},
			http.MethodPut:    {do: snapshot.upload},
			http.MethodDelete: {do: snapshot.drop},
		},
		box + "/snapshots": post(s.once(snapshot.take)),
		box + "/departure": {
			http.MethodPost:   {do: departureRoutes{s}.begin},
			http.MethodPut:    {do: departureRoutes{s}.arrived},
			http.MethodDelete: {do: departureRoutes{s}.back},
		},
		box + "/restore":                   post(snapshot.restore),
		box + "/fork":                      post(s.once(snapshot.fork)),
		box + "/diff":                      get(change.diff),
		box + "/apply":                     post(s.once(change.apply)),
		box + "/exec":                      post(s.once(s.exec)),
		box + "/events":                    get(s.events),
		box + "/processes":                 get(process.processes),
		box + "/processes/{number}":        get(process.process),
		box + "/processes/{number}/output": get(process.output),
		box + "/processes/{number}/stdin":  post(process.stdin),
		box + "/processes/{number}/signal": post(process.signal),
		box + "/processes/{number}/resize": post(process.resize),
		box + "/processes/{number}/tty":    get(process.terminal),
		box + "/files/{path...}": {
			http.MethodGet:    {do: file.readFile},
			http.MethodPut:    {do: file.writeFile},
			http.MethodPost:   {do: file.makeFile},
			http.MethodPatch:  {do: file.changeFile},
			http.MethodDelete: {do: file.removeFile},
		},
	}
}

func health(c *call) error {
	reply(c.w, http.StatusOK, map[string]string{"status": "ok"})
	return nil
}

func (s *Server) version(c *call) error {
	reply(c.w, http.StatusOK, map[string]string{"version": s.Version, "api": "v1"})
	return nil
}

func (s *Server) describe(c *call) error {
	c.w.Header().Set("Content-Type", "application/json")
	_, err := c.w.Write(openAPI)
	return err
}
