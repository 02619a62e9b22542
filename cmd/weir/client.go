package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

const (
	clientTimeout = 10 * time.Second // one call, answer included
	maxAnswer     = 64 << 20         // bytes: a million bans do not fit, which is said and not cut
)

// client talks to the private API of one running weir.
type client struct {
	base  string // scheme://host:port
	token Secret
	http  *http.Client
}

// clientFlags are the flags of every verb that is a client.
type clientFlags struct {
	config, admin, tokenFile string
	json                     bool
}

func (f *clientFlags) flags(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&f.config, "config", "c", defaultConfigFile, "configuration `file` that names admin.address")
	cmd.Flags().StringVar(&f.admin, "admin", "", "private `address` of the running weir, host:port or URL (default admin.address)")
	cmd.Flags().StringVar(&f.tokenFile, "token-file", "", "`file` that holds the token (default WEIR_ADMIN_TOKEN)")
	cmd.Flags().BoolVar(&f.json, "json", false, "print the API's JSON")
}

// client finds the address and the token.
func (a *app) client(f clientFlags, named bool) (*client, error) {
	address := f.admin
	if address == "" {
		c, err := a.file(f.config, named)
		if err != nil {
			return nil, err
		}
		address = c.Admin.Address
	}
	base, err := adminURL(address)
	if err != nil {
		return nil, err
	}
	token := NewSecret(a.env("WEIR_ADMIN_TOKEN"))
	if f.tokenFile != "" {
		r := secretReader{env: func(string) string { return "" }}
		text, err := r.file(f.tokenFile)
		if err != nil {
			return nil, fmt.Errorf("--token-file %s %w", f.tokenFile, err)
		}
		token = NewSecret(text)
	}
	if !token.Set() {
		return nil, errors.New("no admin token; set WEIR_ADMIN_TOKEN or give --token-file (with the sample shop, weir prints a token when it starts)")
	}
	return &client{base: base, token: token, http: &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true, Proxy: http.ProxyFromEnvironment},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// file loads the configuration for its admin.address only.
func (a *app) file(path string, named bool) (Config, error) {
	src, err := readConfig(path, named)
	if err != nil {
		return Config{}, err
	}
	return Load(path, src)
}

// adminURL makes scheme://host:port of an address to listen on or of a URL. A
// listener on every address is asked on this host.
func adminURL(address string) (string, error) {
	if strings.Contains(address, "://") {
		u, err := url.Parse(address)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || strings.Trim(u.Path, "/") != "" {
			return "", usagef("--admin: (%s) is no address, right is host:port or http://host:port", clip(address))
		}
		return u.Scheme + "://" + u.Host, nil
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil || !isPort(port) {
		return "", usagef("--admin: (%s) is no address, right is host:port or http://host:port", clip(address))
	}
	if everyHost(host) {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port), nil
}

// question is one call of the API.
type question struct {
	method, path string
	in           any           // sent as JSON; nil = no body
	ifMatch      string        // "" = not sent
	within       time.Duration // answer included; 0 = clientTimeout
}

// told is a 2xx answer.
type told struct {
	body []byte
	etag string
}

// call sends in as JSON (nil = no body) and gives the body of a 2xx answer.
func (c *client) call(ctx context.Context, method, path string, in any) ([]byte, error) {
	answer, err := c.ask(ctx, question{method: method, path: path, in: in})
	return answer.body, err
}

// ask makes one call.
func (c *client) ask(ctx context.Context, q question) (told, error) {
	within := cmp.Or(q.within, clientTimeout)
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	req, err := c.request(ctx, q)
	if err != nil {
		return told{}, fmt.Errorf("writing the request: %w", err)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return told{}, c.unreachable(err, within)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return told{}, c.unreachable(err, within)
	}
	if len(answer) > maxAnswer {
		return told{}, fmt.Errorf("the answer is larger than %d MiB; ask for less", maxAnswer>>20)
	}
	if resp.StatusCode/100 != 2 {
		return told{}, refusal(resp, answer)
	}
	return told{body: answer, etag: resp.Header.Get("ETag")}, nil
}

func (c *client) request(ctx context.Context, q question) (*http.Request, error) {
	var body io.Reader
	if q.in != nil {
		b, err := json.Marshal(q.in)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, q.method, c.base+"/api/v1"+q.path, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+string(c.token.Reveal()))
	req.Header.Set("Accept", "application/json")
	if q.in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if q.ifMatch != "" {
		req.Header.Set("If-Match", q.ifMatch)
	}
	return req, nil
}

func (c *client) unreachable(err error, within time.Duration) error {
	var timeout net.Error
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("no weir answers at %s; is it running? (weir serve)", c.base)
	case errors.Is(err, context.Canceled):
		return errors.New("interrupted")
	case errors.As(err, &timeout) && timeout.Timeout():
		return fmt.Errorf("weir at %s did not answer within %s", c.base, within)
	}
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	return fmt.Errorf("asking weir at %s: %w", c.base, err)
}

// refusal turns a problem answer into one line, and one more for each fault
// that it names.
func refusal(resp *http.Response, body []byte) error {
	var p struct {
		Title, Detail, Code, ETag string
		Faults                    []struct{ Field, Value, Problem string }
	}
	if json.Unmarshal(body, &p) != nil || p.Code == "" {
		return fmt.Errorf("the answer is %s and no problem that weir would send; is that address weir's private one?", clip(resp.Status))
	}
	if len(p.Faults) > 0 {
		lines := []string{fmt.Sprintf("refused, %s (%s, %d)", counted(len(p.Faults), "fault"), oneLine(p.Code), resp.StatusCode)}
		for _, f := range p.Faults {
			value := ""
			if f.Value != "" {
				value = " (" + oneLine(f.Value) + ")"
			}
			lines = append(lines, oneLine(f.Field)+value+": "+oneLine(f.Problem))
		}
		return errors.New(strings.Join(lines, "\n"))
	}
	if p.Detail == "" {
		p.Detail = p.Title
	}
	if p.ETag != "" {
		p.Detail += " Its ETag now is " + p.ETag + "."
	}
	return fmt.Errorf("%s (%s, %d)", oneLine(p.Detail), oneLine(p.Code), resp.StatusCode)
}

func decodeAnswer[T any](body []byte) (T, error) {
	var v T
	if err := json.Unmarshal(body, &v); err != nil {
		return v, fmt.Errorf("reading the answer: %w; is that address weir's private one?", err)
	}
	return v, nil
}
