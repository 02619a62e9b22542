package gateway

import (
	"net/url"
	"strings"
	"testing"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"
)

// wished reads a body as a buy request would.
func wished(t *testing.T, kind, body string) (wish, error) {
	t.Helper()
	app := fiber.New(fiber.Config{DisableStartupMessage: true})
	raw := &fasthttp.RequestCtx{}
	raw.Request.Header.SetMethod("POST")
	raw.Request.Header.SetContentType(kind)
	raw.Request.SetBodyString(body)
	c := app.AcquireCtx(raw)
	defer app.ReleaseCtx(c)
	return readWish(&exchange{c: c})
}

func TestAnOrdersBodyHasOneReading(t *testing.T) {
	const jsonKind, formKind = "application/json", "application/x-www-form-urlencoded"
	for name, c := range map[string]struct {
		kind, body string
		quantity   int64
		rest       string
	}{
		"nothing":                     {"", "", 1, ""},
		"JSON":                        {jsonKind, `{"quantity":2,"gift":true}`, 2, `{"quantity":2,"gift":true}`},
		"JSON with charset":           {jsonKind + "; charset=utf-8", `{"quantity":2}`, 2, `{"quantity":2}`},
		"JSON without ours":           {jsonKind, `{ "gift" : {"quantity":9} }`, 1, `{ "gift" : {"quantity":9} }`},
		"JSON loses what is for weir": {jsonKind, `{"a":1,"weir_pass":"p","quantity":2,"answer":"1"}`, 2, `{"a":1,"quantity":2}`},
		"form":                        {formKind, "quantity=3&gift=1", 3, "quantity=3&gift=1"},
		"form, empty quantity":        {formKind, "quantity=&gift=1", 1, "quantity=&gift=1"},
		"form loses what is for weir": {formKind, "gift=1&weir_pass=p&challenge=c&answer=1", 1, "gift=1"},
	} {
		t.Run(name, func(t *testing.T) {
			w, err := wished(t, c.kind, c.body)
			if err != nil || w.quantity != c.quantity || string(w.rest) != c.rest {
				t.Errorf("got %+v %q %v", w, w.rest, err)
			}
		})
	}
}

func TestABodyWithTwoReadingsIsRefused(t *testing.T) {
	const jsonKind, formKind = "application/json", "application/x-www-form-urlencoded"
	for name, c := range map[string]struct{ kind, body, want string }{
		"multipart":                {"multipart/form-data; boundary=x", "--x\r\n\r\n--x--", "Content-Type"},
		"text":                     {"text/plain", `{"quantity":5}`, "Content-Type"},
		"no kind":                  {"", `{"quantity":5}`, "Content-Type"},
		"another JSON":             {"application/vnd.api+json", `{"quantity":5}`, "Content-Type"},
		"doubled key":              {jsonKind, `{"quantity":1,"quantity":5}`, "quantity: given twice"},
		"doubled key of the shop":  {jsonKind, `{"a":1,"a":5}`, "a: given twice"},
		"another case":             {jsonKind, `{"quantity":1,"Quantity":5}`, "write quantity"},
		"a string":                 {jsonKind, `{"quantity":"1"}`, "quantity"},
		"a fraction":               {jsonKind, `{"quantity":1.5}`, "quantity 1.5"},
		"an exponent":              {jsonKind, `{"quantity":1e2}`, "quantity 1e2"},
		"null":                     {jsonKind, `{"quantity":null}`, "quantity null"},
		"a pass that is a number":  {jsonKind, `{"weir_pass":7}`, "weir_pass: must be a string"},
		"a list":                   {jsonKind, `[1]`, "not a JSON object"},
		"cut":                      {jsonKind, `{"quantity":1`, "not a JSON object"},
		"more behind":              {jsonKind, `{"quantity":1}{"quantity":5}`, "not a JSON object"},
		"many fields":              {jsonKind, "{" + manyFields() + "}", "not a JSON object"},
		"form twice":               {formKind, "quantity=1&quantity=5", "quantity: given twice"},
		"form as a list":           {formKind, "quantity[]=5", "write quantity"},
		"form with old separators": {formKind, "a=1;quantity=5", "belongs into the body"},
		"form as PHP reads it":     {formKind, "quantity[0]=5", "write quantity"},
		"form with a NUL":          {formKind, "quantity%00x=5", "write quantity"},
		"garbage behind":           {jsonKind, `{"quantity":1}]{"quantity":5}`, "not a JSON object"},
		"form, no number":          {formKind, "quantity=many", "quantity many"},
	} {
		t.Run(name, func(t *testing.T) {
			if w, err := wished(t, c.kind, c.body); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("want an error with %q, got %+v %v", c.want, w, err)
			}
		})
	}
}

func manyFields() string {
	var b strings.Builder
	for i := range maxBodyFields + 1 {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(`"f` + itoa(i) + `":1`)
	}
	return b.String()
}

func FuzzWish(f *testing.F) {
	f.Add(true, `{"quantity":1,"weir_pass":"x"}`)
	f.Add(false, "quantity=1&answer=2")
	f.Fuzz(func(t *testing.T, asJSON bool, body string) {
		kind := "application/x-www-form-urlencoded"
		if asJSON {
			kind = "application/json"
		}
		w, err := wished(t, kind, body)
		if err != nil {
			return
		}
		again, err := wished(t, kind, string(w.rest))
		if err != nil || again.quantity != w.quantity || again.pass != "" || again.challenge != "" || again.answer != "" {
			t.Fatalf("%q became %q, which reads as %+v %v", body, w.rest, again, err)
		}
	})
}

func TestRedirectsOfTheShopStayOnThisSite(t *testing.T) {
	g := &Gateway{cfg: Config{Upstream: UpstreamConfig{URL: &url.URL{Scheme: "http", Host: "shop:8000"}}}}
	for to, want := range map[string]string{
		"/orders/1":                     "/orders/1",
		"http://shop:8000/orders/1?a#b": "/orders/1?a#b",
		"http://shop:8000":              "/",
		"http://SHOP:8000//evil/x":      "/evil/x",
		`http://shop:8000/\evil/x`:      `/%5Cevil/x`,
		"https://pay.example/1":         "https://pay.example/1",
	} {
		if got := g.localLocation(to); got != want {
			t.Errorf("%s: got %s, want %s", to, got, want)
		}
	}
}

func TestAnExpiredTokenIsNoForgery(t *testing.T) {
	secret := []byte("0123456789abcdef0123456789abcdef")
	for name, c := range map[string]struct {
		key    []byte
		forged bool
	}{"expired": {secret, false}, "made up": {[]byte("another secret of thirty-two byt"), true}} {
		t.Run(name, func(t *testing.T) {
			w, token := expiredToken(t, secret, c.key)
			if _, err := w.checkJWT(token); err == nil || forged(err) != c.forged {
				t.Errorf("got %v", err)
			}
		})
	}
	w, _ := expiredToken(t, secret, secret)
	if _, err := w.checkJWT("garbage"); !forged(err) {
		t.Error("garbage is a forgery")
	}
}

func TestAPackedOrderAndOneInTheQueryAreRefused(t *testing.T) {
	app := fiber.New(fiber.Config{DisableStartupMessage: true})
	for name, c := range map[string]struct{ uri, encoding, want string }{
		"packed":                  {"/buy/1", "gzip", "Content-Encoding"},
		"in the query":            {"/buy/1?a=1&quantity=5", "", "quantity: belongs into the body"},
		"in the query, escaped":   {"/buy/1?%71uantity=5", "", "quantity: belongs into the body"},
		"a pass in the query":     {"/buy/1?weir_pass=x", "", "weir_pass: belongs into the body"},
		"in the query, as a list": {"/buy/1?quantity[]=5", "", "quantity: belongs into the body"},
		"others are the shop's":   {"/buy/1?colour=red;size=2&c=%2F&d&e=%zz", "identity", ""},
	} {
		t.Run(name, func(t *testing.T) {
			raw := &fasthttp.RequestCtx{}
			raw.Request.Header.SetRequestURI(c.uri)
			if c.encoding != "" {
				raw.Request.Header.Set("Content-Encoding", c.encoding)
			}
			fc := app.AcquireCtx(raw)
			defer app.ReleaseCtx(fc)
			_, err := readWish(&exchange{c: fc})
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}
