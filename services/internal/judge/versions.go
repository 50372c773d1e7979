package judge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/evalhost/evalhost/langimages"
	"github.com/evalhost/evalhost/services/internal/sandbox"
	"github.com/evalhost/evalhost/services/internal/verdict"
)

// Versions says, by toolchain, which compiler or interpreter an image carries, in its own words, such as
// "gcc (Debian 14.2.0-19) 14.2.0".
type Versions map[string]string

const (
	// versionsFile is what an image's programs write their versions into, as the artefact of a build.
	versionsFile = "versions"
	// maxVersions bounds that file, maxVersion one version.
	maxVersions = 64 * verdict.KiB
	maxVersion  = 200
)

// ReadVersions starts every compiler and interpreter of one image and returns what each says of itself, by toolchain. It is
// also the proof that they can be started at all: an image whose interpreter is there and does not run would otherwise fail
// every submission in the words of a program that failed. An error is the machinery's.
func ReadVersions(ctx context.Context, box Box, table *langimages.Table, key, image string) (_ Versions, err error) {
	commands := table.VersionCommands(key)
	if len(commands) == 0 {
		return nil, fmt.Errorf("no toolchain runs in the image %s", key)
	}
	job, err := box.OpenJob(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, job.Close()) }()
	built, err := job.Build(ctx, sandbox.Build{
		Kind: sandbox.JudgeBuild, Image: image, Command: versionsCommand(commands), SourceName: versionsFile, Artifact: versionsFile,
	})
	if err != nil {
		return nil, fmt.Errorf("asking the image %s for its versions: %w", key, err)
	}
	if built.Stop != sandbox.OnItsOwn || built.ExitCode != 0 || built.Program == nil {
		return nil, fmt.Errorf("the compilers of the image %s cannot be started: %s; the image is damaged: load it again", key, judgeBuildFailure(built))
	}
	said, err := readVersions(built.Program.Path(), len(commands))
	if err != nil {
		return nil, fmt.Errorf("the image %s: %w", key, err)
	}
	versions := Versions{}
	for _, toolchain := range table.Offered() {
		if toolchain.Image != key {
			continue
		}
		at := slices.IndexFunc(commands, func(c []string) bool { return slices.Equal(c, toolchain.Versions) })
		versions[toolchain.ID] = said[at]
	}
	return versions, nil
}

// ReadEveryVersion is ReadVersions for every image of a table; images holds their ids by key.
func ReadEveryVersion(ctx context.Context, box Box, table *langimages.Table, images map[string]string) (Versions, error) {
	all := Versions{}
	for _, image := range table.Images() {
		id := images[image.Key]
		if id == "" {
			return nil, fmt.Errorf("the image %s was not proved to be the expected one", image.Key)
		}
		read, err := ReadVersions(ctx, box, table, image.Key, id)
		if err != nil {
			return nil, err
		}
		all.Join(read)
	}
	return all, nil
}

// versionsCommand runs the commands one after the other, each of them followed by a NUL in the file.
func versionsCommand(commands [][]string) []string {
	script := "mkdir -p /out && exec >/out/" + versionsFile
	var words []string
	for _, command := range commands {
		script += " &&"
		for _, word := range command {
			words = append(words, word)
			script += fmt.Sprintf(` "${%d}"`, len(words))
		}
		script += ` && printf '\0'`
	}
	return append([]string{"/bin/sh", "-c", script, "sh"}, words...)
}

// readVersions reads what so many programs wrote.
func readVersions(path string, programs int) ([]string, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, int64(maxVersions)+1))
	if err != nil {
		return nil, err
	}
	if len(content) > int(maxVersions) {
		return nil, fmt.Errorf("it said more than %s of its versions", maxVersions)
	}
	parts := bytes.Split(content, []byte{0})
	if len(parts) != programs+1 || len(parts[programs]) > 0 {
		return nil, fmt.Errorf("%d programs of it were asked for their versions, and %d answered", programs, len(parts)-1)
	}
	said := make([]string, programs)
	for i := range said {
		if said[i] = version(string(parts[i])); said[i] == "" {
			return nil, fmt.Errorf("the program %d of it has no version", i+1)
		}
	}
	return said, nil
}

// version is the first line of what a program says of itself; PyPy says on a second, in brackets, that it is PyPy.
func version(said string) string {
	first, rest, _ := strings.Cut(strings.TrimSpace(strings.ToValidUTF8(said, "\ufffd")), "\n")
	words := strings.Fields(first)
	if second, _, _ := strings.Cut(rest, "\n"); strings.HasPrefix(strings.TrimSpace(second), "[") {
		words = append(words, strings.Fields(second)...)
	}
	line := strings.Join(words, " ")
	if len(line) <= maxVersion {
		return line
	}
	end := maxVersion
	for !utf8.RuneStart(line[end]) {
		end--
	}
	return line[:end]
}

// Join adds the versions of another image.
func (v Versions) Join(more Versions) { maps.Copy(v, more) }
