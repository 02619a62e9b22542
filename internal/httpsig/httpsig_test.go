package httpsig

import (
	"crypto/hmac"
	"encoding/base64"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

var (
	shopKey = []byte("0123456789abcdef0123456789abcdef")
	signed  = time.Unix(1_800_000_000, 0)
	body    = []byte("quantity=2")
)

func keys(id string) ([]byte, bool) { return shopKey, id == "shop" }

func message() Message {
	return Message{Method: "POST", Path: "/buy/1001", RawQuery: "a=1&b=%20", Header: map[string]string{
		"content-digest": Digest(body), "weir-sale": "demo", "weir-item": "1001", "weir-user": "", "idempotency-key": "r-1",
	}}
}

// The example of RFC 9421 §B.2.5, with its shared secret.
func TestBaseAndMACMatchTheRFCExample(t *testing.T) {
	secret, err := base64.StdEncoding.DecodeString("uzvJfB4u3N0Jy4T7NZ75MDVcr8zSTInedJtkgcu46YW4XByzNJjxBdtjUkdJPBtbmHhIDi6pcl8jsasjlTMtDQ==")
	if err != nil {
		t.Fatal(err)
	}
	text := signatureBase([]line{
		{"date", "Tue, 20 Apr 2021 02:07:55 GMT"},
		{"@authority", "example.com"},
		{"content-type", "application/json"},
	}, `("date" "@authority" "content-type");created=1618884473;keyid="test-shared-secret"`)
	want := `"date": Tue, 20 Apr 2021 02:07:55 GMT
"@authority": example.com
"content-type": application/json
"@signature-params": ("date" "@authority" "content-type");created=1618884473;keyid="test-shared-secret"`
	if text != want {
		t.Fatalf("base:\n%s\nwant:\n%s", text, want)
	}
	if got := base64.StdEncoding.EncodeToString(mac(secret, text)); got != "pxcQw6G3AjtMBQjwo8XzkZf/bws5LelbaMk5rGIGtE8=" {
		t.Fatalf("mac = %s", got)
	}
}

// The digests of RFC 9530 §B.1 and of nothing.
func TestDigestMatchesRFC9530(t *testing.T) {
	for in, want := range map[string]string{
		`{"hello": "world"}`: "sha-256=:X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPE=:",
		"":                   "sha-256=:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:",
	} {
		if got := Digest([]byte(in)); got != want {
			t.Errorf("Digest(%q) = %s", in, got)
		}
	}
}

func TestSignCoversEverythingInTheWrittenOrder(t *testing.T) {
	input, signature := Sign(shopKey, "shop", signed, message())
	want := `weir=("@method" "@path" "@query" "content-digest" "weir-item" "weir-sale" "weir-user" "idempotency-key");created=1800000000;keyid="shop";alg="hmac-sha256"`
	if input != want {
		t.Fatalf("input = %s", input)
	}
	text := "\"@method\": POST\n\"@path\": /buy/1001\n\"@query\": ?a=1&b=%20\n\"content-digest\": " + Digest(body) +
		"\n\"weir-item\": 1001\n\"weir-sale\": demo\n\"weir-user\": \n\"idempotency-key\": r-1\n\"@signature-params\": " + want[len("weir="):]
	if want := "weir=:" + base64.StdEncoding.EncodeToString(mac(shopKey, text)) + ":"; signature != want {
		t.Fatalf("signature = %s, want %s", signature, want)
	}
}

func TestPathAndQueryKeepTheRFCsForm(t *testing.T) {
	for _, c := range []struct{ path, query, wantPath, wantQuery string }{
		{"", "", "/", "?"},
		{"/p", "", "/p", "?"},
		{"/a%2Fb", "q=%C3%A9&x", "/a%2Fb", "?q=%C3%A9&x"},
	} {
		m := Message{Path: c.path, RawQuery: c.query}
		path, err1 := component(m, "@path")
		query, err2 := component(m, "@query")
		if path != c.wantPath || query != c.wantQuery || err1 != nil || err2 != nil {
			t.Errorf("%+v: %q %q %v %v", c, path, query, err1, err2)
		}
	}
}

func TestSignRefusesWhatNoHeaderCanCarry(t *testing.T) {
	broken, undigested := message(), message()
	broken.Header["weir-user"] = "x\n\"weir-item\": 7"
	delete(undigested.Header, "content-digest")
	for name, c := range map[string]struct {
		m   Message
		key string
	}{"line break": {broken, "shop"}, "no digest": {undigested, "shop"}, "key id": {message(), "schlüssel"}} {
		if input, sig := Sign(shopKey, c.key, signed, c.m); input != "" || sig != "" {
			t.Errorf("%s: signed: %s", name, input)
		}
	}
}

func TestVerifyAcceptsItsOwnAndOtherOrders(t *testing.T) {
	m := message()
	input, sig := Sign(shopKey, "shop", signed, m)
	for name, at := range map[string]time.Duration{"at once": 0, "at the age limit": time.Minute, "clock behind": -MaxAhead} {
		if err := Verify(keys, signed.Add(at), time.Minute, m, input, sig, body); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	params := `("idempotency-key" "weir-user" "weir-sale" "weir-item" "content-digest" "@query" "@path" "@method");alg="hmac-sha256";created=1800000000;keyid="shop"`
	input, sig = signWith(t, m, params)
	if err := Verify(keys, signed, time.Minute, m, input, sig, body); err != nil {
		t.Errorf("another order of components and parameters: %v", err)
	}
}

func TestVerifyIgnoresFurtherDigests(t *testing.T) {
	m := message()
	m.Header["content-digest"] = "sha-512=:AAAA:, " + Digest(body)
	input, sig := Sign(shopKey, "shop", signed, m)
	if err := Verify(keys, signed, time.Minute, m, input, sig, body); err != nil {
		t.Fatal(err)
	}
}

// signWith signs m under the given parameters, whatever they say.
func signWith(t *testing.T, m Message, params string) (input, sig string) {
	t.Helper()
	var names []string
	list := params[1:strings.Index(params, ")")]
	for name := range strings.FieldsSeq(list) {
		names = append(names, strings.Trim(strings.SplitN(name, ";", 2)[0], `"`))
	}
	text, err := base(m, names, params)
	if err != nil {
		text = params // a component that cannot be had: any signature will do
	}
	return Label + "=" + params, Label + "=:" + base64.StdEncoding.EncodeToString(mac(shopKey, text)) + ":"
}

func TestVerifyRefuses(t *testing.T) {
	const all = `("@method" "@path" "@query" "content-digest" "weir-item" "weir-sale" "weir-user" "idempotency-key")`
	const tail = `;created=1800000000;keyid="shop";alg="hmac-sha256"`
	cases := []struct {
		name   string
		params string
		want   error
	}{
		{"a component left out", `("@method" "@path" "@query" "content-digest" "weir-item" "weir-sale" "idempotency-key")` + tail, ErrMissing},
		{"no components", `()` + tail, ErrMissing},
		{"a component that is not there", strings.Replace(all, ")", ` "weir-attempt")`, 1) + tail, ErrUncovered},
		{"a header outside the profile", strings.Replace(all, ")", ` "cookie")`, 1) + tail, ErrUncovered},
		{"a component twice", strings.Replace(all, ")", ` "@method")`, 1) + tail, ErrDuplicate},
		{"a component with a parameter", strings.Replace(all, `"@path"`, `"@path";req`, 1) + tail, ErrMalformed},
		{"a component that is a token", strings.Replace(all, `"@path"`, `path`, 1) + tail, ErrMalformed},
		{"another algorithm", all + `;created=1800000000;keyid="shop";alg="rsa-pss-sha512"`, ErrAlgorithm},
		{"no algorithm", all + `;created=1800000000;keyid="shop";tag="x"`, ErrMalformed},
		{"no created", all + `;keyid="shop";alg="hmac-sha256"`, ErrMalformed},
		{"created as a decimal", all + `;created=1800000000.0;keyid="shop";alg="hmac-sha256"`, ErrMalformed},
		{"a nonce", all + tail + `;nonce="n"`, ErrMalformed},
		{"expires", all + tail + `;expires=1`, ErrMalformed},
		{"created twice", all + `;created=1` + tail, ErrDuplicate},
		{"unknown key", all + `;created=1800000000;keyid="other";alg="hmac-sha256"`, ErrUnknownKey},
		{"too old", all + `;created=1799999939;keyid="shop";alg="hmac-sha256"`, ErrTooOld},
		{"from the future", all + `;created=1800000006;keyid="shop";alg="hmac-sha256"`, ErrFuture},
		{"absurdly far away", all + `;created=999999999999999;keyid="shop";alg="hmac-sha256"`, ErrFuture},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			input, sig := signWith(t, message(), c.params)
			if err := Verify(keys, signed, time.Minute, message(), input, sig, body); !errors.Is(err, c.want) {
				t.Fatalf("err = %v, want %v", err, c.want)
			}
		})
	}
}

func TestVerifyRefusesATamperedMessage(t *testing.T) {
	input, sig := Sign(shopKey, "shop", signed, message())
	cases := map[string]struct {
		change func(*Message)
		want   error
	}{
		"method":         {func(m *Message) { m.Method = "GET" }, ErrSignature},
		"path":           {func(m *Message) { m.Path = "/buy/1002" }, ErrSignature},
		"query":          {func(m *Message) { m.RawQuery += "&c=1" }, ErrSignature},
		"user":           {func(m *Message) { m.Header["weir-user"] = "eve" }, ErrSignature},
		"digest":         {func(m *Message) { m.Header["content-digest"] = Digest(nil) }, ErrSignature},
		"header added":   {func(m *Message) { m.Header["weir-attempt"] = "2" }, ErrMissing},
		"header removed": {func(m *Message) { delete(m.Header, "weir-user") }, ErrUncovered},
		"no digest":      {func(m *Message) { delete(m.Header, "content-digest") }, ErrMissing},
	}
	for name, c := range cases {
		m := message()
		c.change(&m)
		if err := Verify(keys, signed, time.Minute, m, input, sig, body); !errors.Is(err, c.want) {
			t.Errorf("%s: err = %v, want %v", name, err, c.want)
		}
	}
	if err := Verify(keys, signed, time.Minute, message(), input, sig, []byte("quantity=9")); !errors.Is(err, ErrDigest) {
		t.Errorf("another body: %v", err)
	}
}

func TestVerifyRefusesMalformedFields(t *testing.T) {
	input, sig := Sign(shopKey, "shop", signed, message())
	cases := map[string]struct {
		input, sig string
		want       error
	}{
		"empty":                {"", "", ErrMalformed},
		"no dictionary":        {"((", sig, ErrMalformed},
		"another label":        {strings.Replace(input, "weir=", "sig1=", 1), sig, ErrMalformed},
		"label twice":          {input + ", " + input, sig, ErrDuplicate},
		"a second label":       {input + ", sig1=()", sig, ErrDuplicate},
		"signature twice":      {input, sig + "," + sig, ErrDuplicate},
		"an item":              {`weir="x"`, sig, ErrMalformed},
		"signature no bytes":   {input, `weir="x"`, ErrMalformed},
		"signature short":      {input, "weir=:AAAA:", ErrMalformed},
		"signature parameters": {input, sig + ";a=1", ErrMalformed},
		"signature list":       {input, "weir=()", ErrMalformed},
		"very long":            {input + strings.Repeat(" ", maxField), sig, ErrMalformed},
	}
	for name, c := range cases {
		if err := Verify(keys, signed, time.Minute, message(), c.input, c.sig, body); !errors.Is(err, c.want) {
			t.Errorf("%s: err = %v, want %v", name, err, c.want)
		}
	}
}

func TestAnEmptyKeyNeverVerifies(t *testing.T) {
	input, sig := Sign(nil, "shop", signed, message())
	none := func(string) ([]byte, bool) { return nil, true }
	if err := Verify(none, signed, time.Minute, message(), input, sig, body); !errors.Is(err, ErrUnknownKey) {
		t.Fatalf("err = %v", err)
	}
}

// request is m as a net/http server sees it.
func request(t *testing.T, m Message, target string) *http.Request {
	t.Helper()
	r := httptest.NewRequest(m.Method, target, strings.NewReader(string(body)))
	for name, value := range m.Header {
		r.Header.Set(name, value)
	}
	input, sig := Sign(shopKey, "shop", signed, m)
	r.Header.Set("Signature-Input", input)
	r.Header.Set("Signature", sig)
	return r
}

func TestVerifyRequestReadsWhatAServerReceives(t *testing.T) {
	for _, c := range []struct{ path, query, target string }{
		{"/buy/1001", "a=1&b=%20", "/buy/1001?a=1&b=%20"},
		{"/buy/1001", "", "/buy/1001"},
		{"/buy/1001", "", "/buy/1001?"},
		{"/b%75y/a%2Fb", "", "/b%75y/a%2Fb"},
		{"/", "q", "/?q"},
	} {
		m := message()
		m.Path, m.RawQuery = c.path, c.query
		if err := VerifyRequest(keys, signed, time.Minute, request(t, m, c.target), body); err != nil {
			t.Errorf("%s: %v", c.target, err)
		}
	}
}

func TestVerifyRequestRefusesUnsignedAndDoubledHeaders(t *testing.T) {
	const target = "/buy/1001?a=1&b=%20"
	for name, c := range map[string]struct {
		change func(http.Header)
		want   error
	}{
		"unsigned":       {func(h http.Header) { h.Del("Signature") }, ErrMalformed},
		"user twice":     {func(h http.Header) { h.Add("Weir-User", "eve") }, ErrDuplicate},
		"two spellings":  {func(h http.Header) { h["weir-user"] = []string{"eve"} }, ErrDuplicate},
		"two signatures": {func(h http.Header) { h.Add("Signature", h.Get("Signature")) }, ErrDuplicate},
		"an extra":       {func(h http.Header) { h.Set("Weir-Extra", "1") }, ErrMissing},
	} {
		r := request(t, message(), target)
		c.change(r.Header)
		if err := VerifyRequest(keys, signed, time.Minute, r, body); !errors.Is(err, c.want) {
			t.Errorf("%s: err = %v, want %v", name, err, c.want)
		}
	}
}

// Whatever is verified, its signature must be the HMAC of a base that holds
// every component; anything else must be refused without a panic.
func FuzzVerify(f *testing.F) {
	input, sig := Sign(shopKey, "shop", signed, message())
	f.Add(input, sig, Digest(body), "/buy/1001", "a=1&b=%20")
	f.Add(`weir=("@method";req "@path");created=-1;keyid="";alg=""`, "weir=:AA:", "sha-256=:AA:", "", "")
	f.Add(`weir=("a" "a"), weir=();created=1.5`, `weir=?1`, `sha-256`, "/", "\n")
	f.Fuzz(func(t *testing.T, input, sig, digest, path, query string) {
		m := message()
		m.Path, m.RawQuery, m.Header["content-digest"] = path, query, digest
		if err := Verify(keys, signed, time.Minute, m, input, sig, body); err != nil {
			return
		}
		in, err := parseInput(input)
		if err != nil {
			t.Fatalf("verified, but unreadable: %v", err)
		}
		text, err := base(m, in.names, in.params)
		if err != nil {
			t.Fatalf("verified without a base: %v", err)
		}
		raw, err := parseSignature(sig)
		if err != nil || !hmac.Equal(raw, mac(shopKey, text)) {
			t.Fatalf("verified a wrong signature")
		}
		for _, name := range required(m) {
			if !strings.Contains(text, `"`+name+`": `) {
				t.Fatalf("verified without %s", name)
			}
		}
	})
}
