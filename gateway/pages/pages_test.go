package pages

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

var noon = time.Date(2030, 5, 1, 12, 0, 0, 0, time.UTC)

// sale is a running sale with a captcha, seen by a signed-in buyer.
func sale(change func(*Buy)) Buy {
	b := Buy{Prefix: "/_weir", Sale: "demo", Item: "1001", ItemName: "Kettle, copper", BuyPath: "/buy/1001",
		State: "running", StartsAt: noon.Add(-time.Minute), EndsAt: noon.Add(time.Hour), Now: noon,
		MaxQuantity: 1, SignedIn: true, NeedsCaptcha: true}
	if change != nil {
		change(&b)
	}
	return b
}

func soon(wait time.Duration) func(*Buy) {
	return func(b *Buy) { b.State, b.StartsAt = "pending", noon.Add(wait) }
}

func picture() *Challenge {
	return &Challenge{ID: "c1", Prompt: "Type the digits you see or hear.", ImageURL: "/_weir/challenges/c1/image",
		AudioURL: "/_weir/challenges/c1/audio"}
}

func held(state string) *Reservation {
	return &Reservation{ID: "r1", State: state, Item: "1001", Quantity: 1, ExpiresAt: noon.Add(5 * time.Minute)}
}

// scene is one page with what it must and must not say.
type scene struct {
	name      string
	draw      func(*bytes.Buffer) error
	has, lack []string
}

func buyScene(name string, change func(*Buy), has, lack []string) scene {
	return scene{name, func(b *bytes.Buffer) error { return RenderBuy(b, sale(change)) }, has, lack}
}

const lit, dark = `type="submit" aria-describedby="buy-hint"`, `type="submit" disabled aria-describedby="buy-hint"`

func buyScenes() []scene {
	ask := `<form id="ask" method="post" action="/_weir/challenges">`
	return []scene{
		buyScene("draft", func(b *Buy) { b.State = "draft" }, []string{"Not announced", "Look again"}, []string{`id="buy"`}),
		buyScene("long before the start", soon(2*time.Hour), []string{"2 h 0 min 0 s", dark, `data-show-at="2030-05-01T13:58:00.000Z"`}, []string{"http-equiv", lit}),
		buyScene("just before the start", soon(90*time.Second), []string{"1 min 30 s", ask, dark, `content="91"`}, []string{lit}),
		buyScene("solved before the start", func(b *Buy) { soon(time.Minute)(b); b.HasPass = true }, []string{"Solved", dark, "data-solved"}, []string{`id="ask"`, lit}),
		buyScene("running says the old state until it is refreshed", func(b *Buy) { b.State, b.StartsAt = "pending", noon }, []string{"On sale now", ask}, nil),
		buyScene("running, nothing solved", nil, []string{"On sale now", ask, dark}, []string{lit, "How many"}),
		buyScene("running, with a picture", func(b *Buy) { b.Challenge = picture() },
			[]string{`action="/_weir/challenges/c1"`, `src="/_weir/challenges/c1/image"`, "<audio controls", "autofocus", `inputmode="numeric"`,
				"about a minute", `form="another">Another picture</button>`, `<form id="another" method="post" action="/_weir/challenges">`}, []string{`id="ask"`, lit}),
		buyScene("running, a picture without sound", func(b *Buy) { b.Challenge = picture(); b.Challenge.AudioURL = "" }, []string{"c1/image"}, []string{`src="/_weir/challenges/c1/audio"`}),
		buyScene("a wrong answer", func(b *Buy) {
			b.Challenge, b.Message, b.MessageCode = picture(), "That did not match.", "captcha_wrong"
		}, []string{"note-warn", "That did not match."}, nil),
		buyScene("solved", func(b *Buy) { b.HasPass, b.PassExpires = true, noon.Add(time.Minute) }, []string{"Solved, thank you", lit, `action="/buy/1001"`}, []string{dark, `id="ask"`}),
		buyScene("no captcha, several units", func(b *Buy) { b.NeedsCaptcha, b.MaxQuantity = false, 3 }, []string{lit, "How many", `max="3"`}, []string{"Show that you are a person"}),
		buyScene("signed out", func(b *Buy) { b.SignedIn, b.SignInURL = false, "/sign-in?next=%2Fx" }, []string{"Please sign in", `href="/sign-in?next=%2Fx"`}, []string{`id="buy"`, `id="ask"`}),
		buyScene("signed out, no address to sign in", func(b *Buy) { b.SignedIn = false }, []string{"come back to this page"}, []string{`href=""`}),
		buyScene("paused", func(b *Buy) { b.State = "paused" }, []string{"Paused", "Look again"}, []string{`id="buy"`}),
		buyScene("sold out", func(b *Buy) { b.SoldOut = true }, []string{"Sold out"}, []string{`id="buy"`}),
		buyScene("over by the clock", func(b *Buy) { b.EndsAt = noon }, []string{"This sale is over"}, []string{`id="buy"`}),
		buyScene("ended", func(b *Buy) { b.State = "ended" }, []string{"This sale is over"}, []string{`id="buy"`}),
		buyScene("cancelled", func(b *Buy) { b.State = "cancelled" }, []string{"does not take place"}, []string{`id="buy"`}),
		buyScene("cancelled after an order", func(b *Buy) { b.State, b.Reservation = "cancelled", held("confirmed") }, []string{"called off", "it stays valid"}, []string{"does not take place", "Nothing more to do"}),
		buyScene("held", func(b *Buy) { b.HasPass, b.Reservation = true, held("reserved") }, []string{"Held for you", `id="again"`, "/_weir/reservations/r1"}, []string{`id="buy"`}),
		buyScene("held, the sale is over", func(b *Buy) { b.State, b.Reservation = "ended", held("reserved") }, []string{"Held for you", "Look again"}, []string{`id="again"`}),
		buyScene("bought", func(b *Buy) {
			b.Reservation = held("confirmed")
			b.Reservation.Order, b.Reservation.OrderURL = "o-9", "/orders/o-9"
		}, []string{"It is yours", "o-9", `href="/orders/o-9"`}, []string{`id="buy"`}),
		buyScene("bought, and may buy more", func(b *Buy) { b.Reservation, b.MayBuyMore = held("confirmed"), true },
			[]string{"It is yours", `type="submit">Buy another</button>`, ask, dark}, []string{lit}),
		buyScene("bought, may buy more, sold out", func(b *Buy) { b.Reservation, b.MayBuyMore, b.SoldOut = held("confirmed"), true, true },
			[]string{"It is yours"}, []string{"Buy another", ask}),
		buyScene("given back", func(b *Buy) { b.Reservation = held("released") }, []string{"Not sold", ask}, nil),
		buyScene("no name", func(b *Buy) { b.ItemName = "" }, []string{"<h1>1001</h1>"}, nil),
	}
}

func refused(r Refusal) func(*bytes.Buffer) error {
	return func(b *bytes.Buffer) error { r.Prefix = "/_weir"; return RenderRefusal(b, r) }
}

func otherScenes() []scene {
	out := []scene{
		{"refusal", func(b *bytes.Buffer) error {
			return RenderRefusal(b, Refusal{Prefix: "/_weir", Status: 409, Code: "in_progress", Title: "Still working on it",
				Detail: "Your order is on its way to the shop.", RequestID: "q-1", RetryAfter: 4, BackURL: "/_weir/sales/demo/page", ReservationURL: "/_weir/reservations/r1"})
		}, []string{"Still working on it", "q-1", `data-seconds="4"`, "See your reservation", "Back to the sale"}, nil},
		{"refusal signed out", refused(Refusal{Status: 401, Code: "user_required", Title: "Please sign in", Detail: "This needs a signed-in visitor.", SignInURL: "/sign-in?next=%2Fx", ShopURL: "/"}),
			[]string{"Please sign in first, then come back here.", `href="/sign-in?next=%2Fx">Sign in`, `href="/">Back to the shop`}, []string{"visitor", "Back to the sale"}},
		{"refusal not found", refused(Refusal{Status: 404, Code: "not_found", Title: "Not found"}), []string{"check the address"}, []string{`class="actions"`, "Back to"}},
		{"refusal no such sale", refused(Refusal{Status: 404, Code: "not_found", Title: "Not found", Detail: "There is no such sale."}), []string{"There is no such sale."}, []string{"check the address"}},
		{"refusal shop unknown", refused(Refusal{Status: 504, Code: "upstream_unknown", Title: "The shop is slow", Detail: "Ask again with the same pass.", RetryAfter: 2,
			AskAgain: "/buy/1001", Quantity: 2, ReservationURL: "/_weir/reservations/r1", BackURL: "/_weir/sales/demo/page"}),
			[]string{`<form class="once" method="post" action="/buy/1001"><input type="hidden" name="quantity" value="2">`, "Ask again</button>", "See your reservation"}, []string{"same pass"}},
		{"refusal before the start", refused(Refusal{Status: 409, Code: "sale_not_started", Title: "The sale has not started", RetryAfter: 124_000_000, StartsAt: noon, BackURL: "/_weir/sales/demo/page"}),
			[]string{"It starts <time", "Wait on the sale&#39;s page"}, []string{"Please wait", "124000000"}},
		{"bare refusal", func(b *bytes.Buffer) error { return RenderRefusal(b, Refusal{Prefix: "/_weir", Status: 404}) },
			[]string{"That did not work"}, []string{"Please wait", "Back to", "mention"}},
	}
	for state, says := range map[string]string{"reserved": "Held for you", "confirmed": "It is yours", "released": "Not sold", "expired": "Time ran out",
		"returned": "Order cancelled", "refund_due": "Refund", "cancelled": "Cancelled", "": "One moment"} {
		out = append(out, scene{"reservation " + state, func(b *bytes.Buffer) error {
			return RenderReservation(b, "/_weir", *held(state), "/_weir/sales/demo/page")
		}, []string{says, "r1", "Back to the sale"}, nil})
	}
	return out
}

var (
	inline    = regexp.MustCompile(`(?i)<style|\sstyle=|\son[a-z]+=|javascript:|<script(?:[^>]*)>[^<]`)
	reference = regexp.MustCompile(`/_weir/assets/([^"?]+)\?v=([0-9a-f]*)`)
	labelFor  = regexp.MustCompile(`<input id="([^"]+)"`)
)

func TestEverySceneSaysWhatItMust(t *testing.T) {
	for _, s := range append(buyScenes(), otherScenes()...) {
		t.Run(s.name, func(t *testing.T) {
			var b bytes.Buffer
			if err := s.draw(&b); err != nil {
				t.Fatal(err)
			}
			page := b.String()
			keep(t, s.name, page)
			for _, want := range s.has {
				if !strings.Contains(page, want) {
					t.Errorf("lacks %q", want)
				}
			}
			for _, bad := range s.lack {
				if strings.Contains(page, bad) {
					t.Errorf("has %q", bad)
				}
			}
			wellMade(t, page)
		})
	}
}

// wellMade checks what holds for every page.
func wellMade(t *testing.T, page string) {
	t.Helper()
	if found := inline.FindString(page); found != "" {
		t.Errorf("inline script or style: %q", found)
	}
	links := reference.FindAllStringSubmatch(page, -1)
	if len(links) < 3 {
		t.Errorf("only %d assets are linked", len(links))
	}
	for _, l := range links {
		if _, err := fs.Stat(Assets(), l[1]); err != nil || AssetETag(l[1]) != `"`+l[2]+`"` {
			t.Errorf("asset %s: %v, version %q", l[1], err, l[2])
		}
	}
	for _, m := range labelFor.FindAllStringSubmatch(page, -1) {
		if !strings.Contains(page, `<label for="`+m[1]+`"`) {
			t.Errorf("input %s has no label", m[1])
		}
	}
	if strings.Count(page, "<h1") != 1 || !strings.HasPrefix(page, "<!doctype html>") {
		t.Error("not one heading, or no doctype")
	}
}

// keep writes the page to the folder named by WEIR_PAGES_OUT, to look at.
func keep(t *testing.T, name, page string) {
	t.Helper()
	dir := os.Getenv("WEIR_PAGES_OUT")
	if dir == "" {
		return
	}
	file := strings.NewReplacer(" ", "-", ",", "").Replace(name) + ".html"
	if err := os.WriteFile(filepath.Join(dir, file), []byte(page), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestHostileValuesStayText(t *testing.T) {
	const evil = `"><script>alert(1)</script><b style="x" onx=y>`
	b := sale(func(b *Buy) {
		b.Sale, b.Item, b.ItemName, b.Message, b.MessageCode = evil, evil, evil, evil, evil
		b.BuyPath, b.OrderID, b.SignInURL = "javascript:alert(1)", evil, "javascript:alert(1)"
		b.Challenge = &Challenge{ID: evil, Prompt: evil, ImageURL: "javascript:alert(1)", AudioURL: "javascript:alert(1)"}
		b.Reservation = &Reservation{ID: evil, State: "released", Item: evil, Order: evil, OrderURL: "javascript:alert(1)"}
	})
	out := *b.Reservation
	signedOut := b
	signedOut.SignedIn = false
	for name, draw := range map[string]func(*bytes.Buffer) error{
		"buy":         func(w *bytes.Buffer) error { return RenderBuy(w, b) },
		"signed out":  func(w *bytes.Buffer) error { return RenderBuy(w, signedOut) },
		"reservation": func(w *bytes.Buffer) error { return RenderReservation(w, "/_weir", out, "javascript:alert(1)") },
		"refusal": func(w *bytes.Buffer) error {
			return RenderRefusal(w, Refusal{Prefix: "/_weir", Code: evil, Title: evil, Detail: evil, RequestID: evil, BackURL: "javascript:alert(1)", ReservationURL: "javascript:alert(1)",
				SignInURL: "javascript:alert(1)", AskAgain: "javascript:alert(1)", ShopURL: "javascript:alert(1)"})
		},
	} {
		var page bytes.Buffer
		if err := draw(&page); err != nil {
			t.Fatal(err)
		}
		for _, bad := range []string{"<script>alert", "<b style", "javascript:"} {
			if strings.Contains(page.String(), bad) {
				t.Errorf("%s: %q got through", name, bad)
			}
		}
	}
}

func TestAssetsHaveStableETags(t *testing.T) {
	for _, name := range []string{"style.css", "buy.js", "icon.svg"} {
		if tag := AssetETag(name); len(tag) != 18 || tag != AssetETag(name) {
			t.Errorf("%s: ETag %q", name, tag)
		}
	}
	if tag := AssetETag("../html/buy.html"); tag != "" {
		t.Errorf("a template has an ETag: %s", tag)
	}
}

func TestTimeLeftReadsWell(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0 s", time.Millisecond: "1 s", 59 * time.Second: "59 s", time.Minute: "1 min 0 s",
		time.Hour + 2*time.Minute: "1 h 2 min 0 s", 24 * time.Hour: "1 d 0 h 0 min 0 s",
	} {
		if got := left(noon, noon.Add(d)); got != want {
			t.Errorf("left(%s) = %q, want %q", d, got, want)
		}
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestAWriterThatFailsIsReported(t *testing.T) {
	if err := RenderBuy(full{}, sale(nil)); err == nil || !strings.Contains(err.Error(), "disk full") {
		t.Fatalf("err = %v", err)
	}
}
