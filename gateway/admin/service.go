package admin

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"html/template"
	"io"
	"net/http"
	"runtime"
	"strings"

	"github.com/gofiber/fiber/v2"
	"github.com/gofiber/fiber/v2/middleware/adaptor"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

//go:embed front.html
var frontSource string

//go:embed front.css
var frontStyle string

// styleHash is the style as a Content-Security-Policy names it.
func styleHash() string {
	sum := sha256.Sum256([]byte(frontStyle))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// frontPage lists the API from its table, so that it cannot be out of date.
func frontPage(w io.Writer, all []route) error {
	t, err := template.New("front").Parse(frontSource)
	if err != nil {
		return err
	}
	type line struct{ Method, Path, Roles, About string }
	var lines []line
	for _, r := range all {
		who := "no token needed"
		if r.roles != nobody {
			who = strings.Join(r.roles.names(), ", ")
		}
		lines = append(lines, line{r.method, strings.ReplaceAll(r.path, ":id", "{id}"), who, r.about})
	}
	// The style is our own text: it must stand as it was hashed.
	return t.Execute(w, struct {
		Style template.CSS
		Lines []line
	}{template.CSS(frontStyle), lines})
}

func (c *Console) index(*call) (any, error) {
	return page{contentType: fiber.MIMETextHTMLCharsetUTF8, text: c.front, style: styleHash()}, nil
}

func (c *Console) health(*call) (any, error) {
	return map[string]string{"status": "ok"}, nil
}

func (c *Console) readiness(*call) (any, error) {
	if reasons := c.ready(); len(reasons) > 0 {
		return reply{status: http.StatusServiceUnavailable, body: map[string]any{"status": "not_ready", "reasons": reasons}}, nil
	}
	return map[string]string{"status": "ready"}, nil
}

func (c *Console) version(*call) (any, error) {
	return map[string]string{"version": c.program, "go": runtime.Version()}, nil
}

func (c *Console) metrics(*call) (any, error) { return passOn(c.scrape), nil }

func (c *Console) profiles(*call) (any, error) { return passOn(c.profile), nil }

func scraper(from prometheus.Gatherer) fiber.Handler {
	return adaptor.HTTPHandler(promhttp.HandlerFor(from, promhttp.HandlerOpts{}))
}
