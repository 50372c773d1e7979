// Command refserver is a small Server to try evalhost with: it hands jobs to Runners and shows what comes of them. It is
// not for production. It listens on loopback only, because whoever reaches it may run programs.
//
//	refserver [-listen 127.0.0.1:8080] [-data DIR] [-approve-all] [-languages a,b] [-quiet]
//
//	refserver demo RUNNER PACKAGE SOURCE...     starts a Runner beside itself and shows both at work
//
// The page for people is at /ui/, the Runner's base URL ends in /api/v1, scripts use /_test/ (services/internal/refserver
// describes it). Once it listens it prints "refserver: listening on http://HOST:PORT" on standard output. Exit status: 0
// after SIGTERM or SIGINT, 1 when it cannot work, 2 for a wrong command line.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/evalhost/evalhost/services/internal/refserver"
)

// stopGrace is how long calls under way may take once a stop was asked for. A held claim is cut off after it.
const stopGrace = 2 * time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// settings are the command line's.
type settings struct {
	listen, data string
	approveAll   bool
	quiet        bool
	languages    []string
}

// parse reads the command line.
func parse(args []string, stderr io.Writer) (settings, error) {
	var s settings
	var languages string
	flags := flag.NewFlagSet("refserver", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&s.listen, "listen", "127.0.0.1:8080", "loopback `address` to listen on; port 0 picks one")
	flags.StringVar(&s.data, "data", "", "`directory` that keeps the state over a restart; in memory without it")
	flags.BoolVar(&s.approveAll, "approve-all", false, "approve every Runner as it registers")
	flags.BoolVar(&s.quiet, "quiet", false, "log warnings and errors only")
	flags.StringVar(&languages, "languages", "", "comma-separated `ids` the page suggests")
	if err := flags.Parse(args); err != nil {
		return settings{}, err
	}
	if flags.NArg() > 0 {
		return settings{}, fmt.Errorf("there is an argument too many: %q", flags.Arg(0))
	}
	if languages != "" {
		s.languages = strings.Split(languages, ",")
	}
	return s, loopback(s.listen)
}

// loopback accepts an address that only this machine can reach.
func loopback(address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("-listen %s: %w; expected something like 127.0.0.1:8080", address, err)
	}
	if ip := net.ParseIP(host); host == "localhost" || ip != nil && ip.IsLoopback() {
		return nil
	}
	return fmt.Errorf("-listen %s: this server is not for production and listens on loopback only, such as 127.0.0.1:8080", address)
}

// run is the command: it returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) > 0 && args[0] == "demo" {
		return demo(ctx, args[1:], stdout, stderr)
	}
	s, err := parse(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintln(stderr, "refserver:", err)
		return 2
	}
	if err := serve(ctx, s, stdout, stderr); err != nil {
		fmt.Fprintln(stderr, "refserver:", err)
		return 1
	}
	return 0
}

// serve works until the context ends.
func serve(ctx context.Context, s settings, stdout, stderr io.Writer) error {
	level := slog.LevelInfo
	if s.quiet {
		level = slog.LevelWarn
	}
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level}))
	server, err := refserver.New(refserver.Options{
		Dir: s.data, Log: log, ApproveAll: s.approveAll, Languages: s.languages,
	})
	if err != nil {
		return err
	}
	defer func() { _ = server.Close() }()
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.listen)
	if err != nil {
		return err
	}
	calls, cutOff := context.WithCancel(context.WithoutCancel(ctx))
	defer cutOff()
	web := &http.Server{
		Handler: server, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 15 * time.Minute, MaxHeaderBytes: 64 << 10,
		BaseContext: func(net.Listener) context.Context { return calls },
		ErrorLog:    slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	swept, served := make(chan struct{}), make(chan error, 1)
	go func() {
		defer close(swept)
		server.Run(ctx)
	}()
	go func() { served <- web.Serve(listener) }()
	fmt.Fprintf(stdout, "refserver: listening on http://%s\n", listener.Addr())
	log.Warn("this is a reference server for trying things out; it is not for production",
		"page", fmt.Sprintf("http://%s%s/", listener.Addr(), refserver.PagePrefix),
		"base", fmt.Sprintf("http://%s%s", listener.Addr(), refserver.Prefix))
	select {
	case err = <-served:
		return err
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopGrace)
	defer cancel()
	// Held claims end with their calls' context; what is then still under way is cut off.
	time.AfterFunc(stopGrace/2, cutOff)
	if err = web.Shutdown(grace); errors.Is(err, context.DeadlineExceeded) {
		err = web.Close()
	}
	<-served
	<-swept
	return err
}
