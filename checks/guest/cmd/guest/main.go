// Command guest builds and runs the test guest: a host without Nix, as a virtual machine.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/evalhost/evalhost/checks/guest"
)

const usage = `usage:
  guest build                                   make the guest's disk, unless it is there
  guest images [--out DIR] [--tests]            write the language images and their manifest into DIR, "images" unless
                                                said otherwise, for any host: DIR/<name>.tar and DIR/images.json;
                                                --tests adds the images that the suites use
  guest up [--variant V] [--name N] [--fresh] [--boot] [--processors N]
                                                start a guest, unless it is up; --fresh replaces one that is up,
                                                --boot boots it instead of restoring a snapshot
  guest down [--name N | --all]                 end a guest
  guest status                                  what is up, and which variants there are
  guest exec [--name N] [--timeout D] [--env K=V]... [--dir DIR] -- CMD [ARG...]
                                                run a command in the guest, as root
  guest push [--name N] SRC... DST              copy files and directories into the guest
  guest pull [--name N] SRC DST                 copy a file or directory out of it
  guest log [--name N]                          its console

"guest exec" ends as the command did, with 128 more than the signal that ended it, with 124 when its time was up, with 125
when the guest could not be reached and with 127 when it has no such command.
`

// Exit statuses of "guest exec" that are not the command's own.
const (
	exitTimeout     = 124
	exitUnreachable = 125
	exitNotStarted  = 127
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	code := run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string) int {
	if len(args) == 0 {
		fmt.Fprint(os.Stderr, usage)
		return 2
	}
	commands := map[string]func(context.Context, []string) (int, error){
		"build": build, "images": images, "up": up, "down": down, "status": status, "exec": execute, "push": push, "pull": pull, "log": showLog,
	}
	command, ok := commands[args[0]]
	if !ok {
		fmt.Fprint(os.Stderr, usage)
		return 2
	}
	code, err := command(ctx, args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return 2
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "guest:", err)
		if code == 0 {
			code = 1
		}
	}
	return code
}

func flags(name string) (*flag.FlagSet, *string) {
	fs := flag.NewFlagSet("guest "+name, flag.ContinueOnError)
	fs.Usage = func() { fmt.Fprint(os.Stderr, usage) }
	return fs, fs.String("name", guest.DefaultName, "")
}

func build(ctx context.Context, args []string) (int, error) {
	fs, _ := flags("build")
	if err := fs.Parse(args); err != nil {
		return 2, err
	}
	_, err := guest.Build(ctx, os.Stderr)
	return 0, err
}

func images(ctx context.Context, args []string) (int, error) {
	fs, _ := flags("images")
	out := fs.String("out", "images", "")
	tests := fs.Bool("tests", false, "")
	if err := fs.Parse(args); err != nil {
		return 2, err
	}
	if fs.NArg() > 0 || *out == "" {
		return 2, errors.New("images: it takes one directory, with --out, and nothing else")
	}
	exports, err := guest.ExportImages(ctx, *out, *tests, os.Stderr)
	if err != nil {
		return 1, err
	}
	for _, e := range exports {
		fmt.Printf("%10d KiB  %s\n", (e.Size+1023)/1024, e.Path)
	}
	fmt.Printf("on the host: docker load -i each .tar, and %s to /etc/evalhost/images.json\n", filepath.Join(*out, "images.json"))
	return 0, nil
}

func up(ctx context.Context, args []string) (int, error) {
	fs, name := flags("up")
	variant := fs.String("variant", guest.DefaultVariant, "")
	fresh := fs.Bool("fresh", false, "")
	boot := fs.Bool("boot", false, "")
	processors := fs.Int("processors", guest.MaxProcessors, "")
	timeout := fs.Duration("timeout", guest.DefaultBootTimeout, "")
	if err := fs.Parse(args); err != nil {
		return 2, err
	}
	g, err := guest.Up(ctx, guest.Options{Name: *name, Variant: *variant, Processors: *processors, Reuse: !*fresh, Boot: *boot, Timeout: *timeout, Log: os.Stderr})
	if err != nil {
		return 1, err
	}
	g.Close()
	return 0, nil
}

func down(ctx context.Context, args []string) (int, error) {
	fs, name := flags("down")
	all := fs.Bool("all", false, "")
	if err := fs.Parse(args); err != nil {
		return 2, err
	}
	if !*all {
		return 0, guest.Down(ctx, *name)
	}
	return 0, guest.DownAll(ctx)
}

func status(context.Context, []string) (int, error) {
	list, err := guest.List()
	if err != nil {
		return 1, err
	}
	for _, s := range list {
		state := "ended"
		switch {
		case s.Running && s.Ready:
			state = "up"
		case s.Running:
			state = "starting"
		}
		fmt.Printf("%-20s %-8s variant %-14s %s, process %d, since %s\n",
			s.Name, state, s.Variant, s.Accel, s.PID, s.Since.Format(time.DateTime))
	}
	if len(list) == 0 {
		fmt.Println("no guest is up")
	}
	fmt.Println("variants:")
	for _, name := range guest.VariantNames() {
		v, err := guest.FindVariant(name)
		if err != nil {
			return 1, err
		}
		fmt.Printf("  %-14s %s\n", name, v.About)
	}
	return 0, nil
}

// list collects a flag that may be given several times.
type list []string

func (l *list) String() string     { return strings.Join(*l, " ") }
func (l *list) Set(v string) error { *l = append(*l, v); return nil }

func execute(ctx context.Context, args []string) (int, error) {
	fs, name := flags("exec")
	timeout := fs.Duration("timeout", 0, "")
	dir := fs.String("dir", "", "")
	var env list
	fs.Var(&env, "env", "")
	if err := fs.Parse(args); err != nil {
		return 2, err
	}
	if fs.NArg() == 0 {
		return 2, errors.New("exec: no command")
	}
	g, err := guest.Attach(ctx, *name)
	if err != nil {
		return exitUnreachable, err
	}
	defer g.Close()
	res, err := g.Exec(ctx, guest.Cmd{
		Args: fs.Args(), Env: env, Dir: *dir, Timeout: *timeout, Stdin: standardInput(), Stdout: os.Stdout, Stderr: os.Stderr,
	})
	return execStatus(res, err, fs.Args(), *timeout)
}

// execStatus is the exit status of "guest exec" for how the command ended, and what is said about it. A command whose time was
// up was killed too: that it was its time is said first.
func execStatus(res guest.Result, err error, args []string, timeout time.Duration) (int, error) {
	switch {
	case errors.Is(err, guest.ErrNotStarted):
		return exitNotStarted, err
	case err != nil:
		return exitUnreachable, err
	case res.TimedOut:
		return exitTimeout, fmt.Errorf("%s did not end within %v: it was killed with everything it started", strings.Join(args, " "), timeout)
	case res.Signal != 0:
		return 128 + res.Signal, nil
	}
	return res.Code, nil
}

// standardInput is nil where there is nothing to read: a closed descriptor or the null device.
func standardInput() io.Reader {
	info, err := os.Stdin.Stat()
	if err != nil {
		return nil
	}
	if null, err := os.Stat(os.DevNull); err == nil && os.SameFile(info, null) {
		return nil
	}
	return os.Stdin
}

func push(ctx context.Context, args []string) (int, error) {
	fs, name := flags("push")
	if err := fs.Parse(args); err != nil {
		return 2, err
	}
	if fs.NArg() < 2 {
		return 2, errors.New("push: SRC... DST")
	}
	g, err := guest.Attach(ctx, *name)
	if err != nil {
		return exitUnreachable, err
	}
	defer g.Close()
	last := fs.NArg() - 1
	return 0, g.Push(ctx, fs.Arg(last), fs.Args()[:last]...)
}

func pull(ctx context.Context, args []string) (int, error) {
	fs, name := flags("pull")
	if err := fs.Parse(args); err != nil {
		return 2, err
	}
	if fs.NArg() != 2 {
		return 2, errors.New("pull: SRC DST")
	}
	g, err := guest.Attach(ctx, *name)
	if err != nil {
		return exitUnreachable, err
	}
	defer g.Close()
	return 0, g.Pull(ctx, fs.Arg(0), fs.Arg(1))
}

func showLog(_ context.Context, args []string) (int, error) {
	fs, name := flags("log")
	if err := fs.Parse(args); err != nil {
		return 2, err
	}
	path, err := guest.ConsoleLog(*name)
	if err != nil {
		return 1, err
	}
	f, err := os.Open(path)
	if err != nil {
		return 1, err
	}
	defer f.Close()
	_, err = io.Copy(os.Stdout, f)
	return 0, err
}
