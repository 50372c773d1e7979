package refserver

import (
	"context"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// browser is headless Chromium; it takes pictures and clicks nothing (decisions 24).
func browser(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("NO PICTURE WAS TAKEN: there is no Chromium on this machine; install the package chromium to have the pages looked at")
	return ""
}

// shoot takes a picture of a page.
func shoot(t *testing.T, program, url, file string) image.Image {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
		"--user-data-dir="+t.TempDir(), "--window-size=1000,800", "--screenshot="+file, url)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
	cmd.WaitDelay = 10 * time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", url, err, out)
	}
	f, err := os.Open(file)
	must(t, err)
	defer f.Close()
	picture, err := png.Decode(f)
	must(t, err)
	return picture
}

// look says what is wrong with a picture of a page: one without text is of few colours, one without style is all at the top
// left.
func look(picture image.Image) string {
	b := picture.Bounds()
	if b.Dx() != 1000 || b.Dy() != 800 {
		return fmt.Sprintf("it is %d by %d", b.Dx(), b.Dy())
	}
	colours, ink, background := map[color.Color]bool{}, 0, picture.At(b.Max.X-1, b.Max.Y-1)
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			c := picture.At(x, y)
			colours[c] = true
			if c != background {
				ink++
			}
		}
	}
	if len(colours) < 30 || ink < 3000 {
		return fmt.Sprintf("there are %d colours and %d points of ink in it", len(colours), ink)
	}
	return ""
}

// Every page is drawn by a real browser: it holds text, in the colours of its style sheet. EVALHOST_PICTURES names a directory
// that keeps the pictures.
func TestABrowserDrawsThePages(t *testing.T) {
	if blank := look(image.NewRGBA(image.Rect(0, 0, 1000, 800))); blank == "" {
		t.Fatal("a blank picture passes, so this shows nothing")
	}
	program := browser(t)
	dir := os.Getenv("EVALHOST_PICTURES")
	if dir == "" {
		dir = t.TempDir()
	}
	s := newStage(t, Options{})
	runner := s.player(t).in()
	j := s.submit(t)
	lease := runner.claim().text("leaseToken")
	runner.want(204, "", runner.post("jobs/"+j.ID+"/files", obj{"leaseToken": lease, "fileId": runner.uploaded(), "name": "log"}))
	runner.want(200, "", runner.post("jobs/"+j.ID+"/report", report(lease)))
	for name, path := range map[string]string{
		"overview": "/ui/", "packages": "/ui/packages", "submit": "/ui/submit", "job": "/ui/jobs/" + j.ID,
	} {
		t.Run(name, func(t *testing.T) {
			if wrong := look(shoot(t, program, s.web.URL+path, filepath.Join(dir, name+".png"))); wrong != "" {
				t.Errorf("the picture of %s: %s", path, wrong)
			}
		})
	}
}
