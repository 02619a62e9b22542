package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// chromium starts a headless browser tab; the test is skipped without one,
// unless WEIR_REQUIRE_REAL makes that a failure.
func chromium(t *testing.T, width, height int64) context.Context {
	t.Helper()
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if p, err := exec.LookPath(name); err == nil {
			path = p
			break
		}
	}
	if path == "" {
		if os.Getenv("WEIR_REQUIRE_REAL") != "" {
			t.Fatal("chromium is not installed and WEIR_REQUIRE_REAL asks for it")
		}
		t.Skip("chromium is not installed")
	}
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.WindowSize(int(width), int(height)), chromedp.UserDataDir(t.TempDir()))
	alloc, stop := chromedp.NewExecAllocator(t.Context(), opts...)
	t.Cleanup(stop)
	tab, closeTab := chromedp.NewContext(alloc)
	t.Cleanup(closeTab)
	// The first run starts the browser; the time-out is for the steps alone.
	if err := chromedp.Do(tab, chromedp.EmulateViewport(width, height)); err != nil {
		t.Fatalf("starting chromium: %v", err)
	}
	steps, cancel := context.WithTimeout(tab, time.Minute)
	t.Cleanup(cancel)
	return steps
}

// shot keeps a picture of the page when WEIR_SHOTS names a folder.
func shot(name string) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		dir := os.Getenv("WEIR_SHOTS")
		if dir == "" {
			return nil
		}
		png, err := chromedp.FullScreenshot(90)(ctx, t)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, name+".png"), png, 0o600)
	})
}

var answerAction = regexp.MustCompile(`/_weir/challenges/([^/?"]+)$`)

func TestAPersonBuysInABrowser(t *testing.T) {
	for name, c := range map[string]struct {
		width, height int64
		scripts       bool
		dark          bool
	}{
		"on a desk":                      {1280, 900, true, false},
		"on a phone, dark":               {390, 844, true, true},
		"on a phone, without JavaScript": {390, 844, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := boot(t, quiet(t, "memory"))
			tab := chromium(t, c.width, c.height)
			if c.dark {
				call(t, tab, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}}})
			}
			if !c.scripts {
				call(t, tab, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
			}
			buyInBrowser(t, w, tab, strings.ReplaceAll(name, " ", "-"))
			if l := w.invariant("demo"); l.Confirmed != 1 || len(w.orders()) != 1 {
				t.Errorf("one order: %+v", l)
			}
		})
	}
}

// buyInBrowser walks from the shop's first page to the order's.
func buyInBrowser(t *testing.T, w *world, tab context.Context, name string) {
	t.Helper()
	do(t, tab,
		chromedp.Navigate(w.url+"/"), shot(name+"-1-shop"),
		chromedp.Click(`a[href="/items/1001"]`), chromedp.WaitVisible(`a[href*="/_weir/sales/demo/page"], form[action*="/_weir/sales/demo/page"] button`), shot(name+"-2-item"),
		chromedp.Click(`a[href*="/_weir/sales/demo/page"], form[action*="/_weir/sales/demo/page"] button`),
		chromedp.WaitVisible(`#ask button`), shot(name+"-3-sale"),
		chromedp.Click(`#ask button`), chromedp.WaitVisible(`form.answer img`), shot(name+"-4-picture"),
	)
	action, err := chromedp.Run(tab, chromedp.AttributeValue(`form.answer`, "action"))
	if err != nil {
		t.Fatal(err)
	}
	m := answerAction.FindStringSubmatch(action.Value)
	if m == nil {
		t.Fatalf("the answer's form goes to %q", action.Value)
	}
	do(t, tab,
		chromedp.SendKeys(`form.answer input[name=answer]`, answerOf(t, w, m[1])),
		chromedp.Click(`form.answer button`),
		chromedp.WaitEnabled(`#buy button`), shot(name+"-5-solved"),
		chromedp.Click(`#buy button`),
		chromedp.Func(waitForOrder), chromedp.WaitVisible(`h1`), shot(name+"-6-order"),
	)
}

func do(t *testing.T, tab context.Context, steps ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	for i, s := range steps {
		if err := chromedp.Do(tab, s); err != nil {
			at, _ := chromedp.Run(tab, chromedp.Location())
			text, _ := chromedp.Run(tab, chromedp.Text("body"))
			t.Fatalf("step %d of %d: %v, at %s:\n%s", i+1, len(steps), err, at, text)
		}
	}
}

// waitForOrder waits until the tab shows an order's page.
func waitForOrder(ctx context.Context, tab *chromedp.Target) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if at, err := chromedp.Location()(ctx, tab); err == nil && strings.Contains(at, "/orders/") {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.New("never came to the order's page")
		case <-tick.C:
		}
	}
}

// call sends one command of the browser's protocol.
func call[P, R any](t *testing.T, tab context.Context, cmd cdp.Command[P, R], params P) {
	t.Helper()
	if _, err := chromedp.Call(tab, cmd, params); err != nil {
		t.Fatal(err)
	}
}
