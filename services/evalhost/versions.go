package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"

	"github.com/evalhost/evalhost/langimages"
	"github.com/evalhost/evalhost/services/internal/judge"
)

// versionsDir keeps what the images' programs said of themselves: asking takes a container an image. An image's id stands for
// its contents, so what was read once stays true.
const versionsDir = "/var/cache/evalhost/versions"

// readVersions returns the versions of the images a command needs: those that were read before, or what is asked now. An image
// whose programs cannot be started makes the machine unfit.
func readVersions(ctx context.Context, box judge.Box, table *langimages.Table, images map[string]string, dir string) (judge.Versions, error) {
	all := judge.Versions{}
	for key, id := range images {
		path := filepath.Join(dir, strings.NewReplacer("/", "_", ":", "_").Replace(key+"-"+id)+".json")
		known, ok := rememberedVersions(path, table, key)
		if !ok {
			var err error
			if known, err = judge.ReadVersions(ctx, box, table, key, id); err != nil {
				return nil, err
			}
			rememberVersions(path, known)
		}
		all.Join(known)
	}
	return all, nil
}

// rememberedVersions reads a file of ours. One that is not there, does not read, or does not speak of every toolchain of the
// image is none.
func rememberedVersions(path string, table *langimages.Table, key string) (judge.Versions, bool) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, false
	}
	var known judge.Versions
	if json.Unmarshal(content, &known) != nil {
		return nil, false
	}
	for _, toolchain := range table.Offered() {
		if toolchain.Image == key && known[toolchain.ID] == "" {
			return nil, false
		}
	}
	return known, true
}

// rememberVersions writes the file in one step. Where it cannot be written, the next command asks again.
func rememberVersions(path string, versions judge.Versions) {
	content, err := json.Marshal(versions)
	if err != nil || os.MkdirAll(filepath.Dir(path), 0o755) != nil {
		return
	}
	file, err := os.CreateTemp(filepath.Dir(path), ".new-")
	if err != nil {
		return
	}
	_, err = file.Write(content)
	if cerr := file.Close(); err != nil || cerr != nil || os.Rename(file.Name(), path) != nil {
		os.Remove(file.Name())
	}
}
