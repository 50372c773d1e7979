// Package refserver is a small Server for trying things out and for tests (spec/protocol.md section 11): every endpoint a
// Runner uses, a control surface in Go and under /_test/, fault knobs, an injectable clock and a page under /ui/. It is
// not for production: whoever reaches it may submit programs to be run.
//
// The Server is an http.Handler. services/refserver wraps it into a command; tests of a Runner mount it where they like:
//
//	server, err := refserver.New(refserver.Options{Clock: refserver.NewClock()})
//	web := httptest.NewServer(server)            // base URL: web.URL + refserver.Prefix
//	problem, err := server.AddPackage(refserver.Package{…})
//	job, err := server.Submit(refserver.Submission{…})
//	server.SetFault(refserver.Fault{…})
//
// Its state lives in memory, or, with Options.Dir, in a directory where it survives a restart: every change is on disk
// before it is answered. Tokens and nonces are never kept, as in the real Server.
package refserver
