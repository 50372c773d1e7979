package main

import (
	"context"
	"embed"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/evalhost/evalhost/examples"
	"github.com/evalhost/evalhost/services/internal/report"
)

//go:embed template
var template embed.FS

// kinds are the packages that init can write.
var kinds = map[string]func() (fs.FS, error){
	"comparison":  func() (fs.FS, error) { return fs.Sub(template, "template") },
	"checker":     func() (fs.FS, error) { return fs.Sub(examples.Files, "pair") },
	"interactor":  func() (fs.FS, error) { return fs.Sub(examples.Files, "guess") },
	"groups":      func() (fs.FS, error) { return fs.Sub(examples.Files, "divisors") },
	"output-only": func() (fs.FS, error) { return fs.Sub(examples.Files, "tilings") },
	"policy":      func() (fs.FS, error) { return fs.Sub(examples.Files, "vowels") },
}

var initCommand = command{
	name: "init", operands: "DIR [--kind KIND] [--json]", summary: "write a small package to begin with",
	help: `Writes a package that verify passes and lint has nothing to say about. DIR must not exist, or be an empty directory.

  --kind KIND  comparison (the default), checker, interactor, groups, output-only or policy
  --json       print {"package": ..., "kind": ..., "files": [...]} instead
`,
	run: initPackage,
}

func initPackage(ctx context.Context, args []string, std stdio) error {
	flags := flag.NewFlagSet("init", flag.ContinueOnError)
	kind := flags.String("kind", "comparison", "")
	asJSON := flags.Bool("json", false, "")
	operands, err := arguments(flags, args)
	if err != nil {
		return err
	}
	if len(operands) != 1 {
		return badUse("init takes one directory, not %d operands", len(operands))
	}
	open, ok := kinds[*kind]
	if !ok {
		return badUse("there is no kind %q; the kinds are %s", *kind, strings.Join(slices.Sorted(maps.Keys(kinds)), ", "))
	}
	from, err := open()
	if err != nil {
		return err
	}
	files, err := writePackage(ctx, operands[0], from)
	if err != nil {
		return badUse("%w", err)
	}
	if *asJSON {
		return writeJSON(std.out, struct {
			Package string   `json:"package"`
			Kind    string   `json:"kind"`
			Files   []string `json:"files"`
		}{operands[0], *kind, files})
	}
	_, err = fmt.Fprintf(std.out, "wrote a package with %d files; to go on:\n  evalhost lint %s\n  evalhost verify %s\n", len(files), report.Printable(operands[0]), report.Printable(operands[0]))
	return err
}

// writePackage copies a package into a directory that is new or empty. If it cannot be finished, nothing of it stays.
func writePackage(ctx context.Context, dir string, from fs.FS) (files []string, err error) {
	switch children, err := os.ReadDir(dir); {
	case errors.Is(err, fs.ErrNotExist):
		if err := os.MkdirAll(filepath.Dir(filepath.Clean(dir)), 0o755); err != nil {
			return nil, err
		}
		if err := os.Mkdir(dir, 0o755); err != nil {
			return nil, err
		}
		defer func() {
			if files == nil {
				_ = os.RemoveAll(dir)
			}
		}()
	case err != nil:
		return nil, err
	case len(children) > 0:
		return nil, fmt.Errorf("%s is not empty; nothing was written", dir)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	var written []string
	err = fs.WalkDir(from, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		content, err := fs.ReadFile(from, name)
		if err != nil {
			return err
		}
		written = append(written, name)
		if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
			return err
		}
		return root.WriteFile(name, content, 0o644)
	})
	if err != nil {
		for _, name := range written {
			top, _, _ := strings.Cut(name, "/")
			_ = root.RemoveAll(top) // the directory was empty: all below it is ours
		}
		return nil, err
	}
	return written, nil
}
