package admin

import "time"

// roles is a set of roles.
type roles uint8

const (
	viewer roles = 1 << iota
	security
	merchandiser
	operator
	shop

	nobody  roles = 0 // needs no token
	readers       = viewer | security | merchandiser | operator
)

func roleOf(name string) roles {
	switch name {
	case Viewer:
		return viewer
	case Security:
		return security
	case Merchandiser:
		return merchandiser
	case Operator:
		return operator
	case Shop:
		return shop
	}
	return nobody
}

func (r roles) names() (all []string) {
	for _, name := range []string{Viewer, Security, Merchandiser, Operator, Shop} {
		if r&roleOf(name) != 0 {
			all = append(all, name)
		}
	}
	return all
}

// route is one line of the API. It has a read or a change, never both.
type route struct {
	method, path string
	roles        roles // who may; nobody = open to all who reach the listener
	about        string
	query        []string // the query parameters it knows
	status       int      // of success; 0 = 200
	read         func(*Console, *call) (any, error)
	action       string // name of the change in the audit log
	change       func(*Console, *call) (act, error)
	within       time.Duration // its deadline; 0 = readTimeout or changeTimeout
}

// routes is the whole private API: what is not here does not exist.
func routes() []route {
	const bans, sales, sale, reservation = "/api/v1/bans", "/api/v1/sales", "/api/v1/sales/:id", "/api/v1/reservations/:id"
	scoped := []string{"scope", "value"}
	return []route{
		{method: "GET", path: "/", about: "this page", read: (*Console).index},
		{method: "GET", path: "/healthz", about: "the process answers", read: (*Console).health},
		{method: "GET", path: "/readyz", about: "it may take traffic, or why not", read: (*Console).readiness},
		{method: "GET", path: "/metrics", about: "Prometheus metrics", read: (*Console).metrics},
		{method: "GET", path: "/debug/pprof/*", roles: operator, about: "Go profiles", read: (*Console).profiles},
		{method: "GET", path: "/api/v1/version", roles: readers, about: "version of the program", read: (*Console).version},

		{method: "GET", path: bans, roles: readers, query: scoped, about: "who is banned", read: (*Console).listBans},
		{method: "POST", path: bans, roles: security | operator, status: 201, about: "ban a user, address, network or device",
			action: "ban.add", change: (*Console).addBan},
		{method: "DELETE", path: bans, roles: security | operator, query: append(scoped, "reason"), about: "lift a ban",
			action: "ban.remove", change: (*Console).removeBan},
		{method: "GET", path: "/api/v1/explain", roles: readers, query: scoped, about: "why somebody is banned", read: (*Console).explain},

		{method: "GET", path: sales, roles: readers, about: "all sales: of the file, drafts and preheated", read: (*Console).listSales},
		{method: "GET", path: sale, roles: readers, about: "one sale", read: (*Console).showSale},
		{method: "POST", path: sales, roles: merchandiser | operator, status: 201, about: "plan a sale: a draft",
			action: "sale.create", change: (*Console).createSale},
		{method: "PUT", path: sale, roles: merchandiser | operator, about: "replace its plan until it starts; If-Match",
			action: "sale.edit", change: (*Console).editSale},
		{method: "DELETE", path: sale, roles: merchandiser | operator, query: []string{"reason"}, about: "drop a draft that was never preheated; If-Match",
			action: "sale.delete", change: (*Console).deleteSale},
		{method: "GET", path: sale + "/level", roles: readers, about: "its stock now", read: (*Console).level},
		{method: "GET", path: sale + "/audit", roles: readers, about: "its books, proved", read: (*Console).auditSale,
			within: auditSaleTimeout},
		{method: "GET", path: sale + "/ledger", roles: readers, query: ledgerQuery(), about: "who took which units, when, for what",
			read: (*Console).ledger},
		{method: "POST", path: sale + "/reconcile", roles: operator, about: "ledger, archive and the shop's orders, compared; applied if asked",
			action: "sale.reconcile", change: (*Console).reconcile, within: reconcileTimeout},
		{method: "POST", path: sale + "/preheat", roles: merchandiser | operator, about: "write its stock to Redis",
			action: "sale.preheat", change: (*Console).preheat},
		{method: "POST", path: sale + "/archive", roles: operator, about: "copy it to the archive now",
			action: "sale.archive", change: (*Console).archiveSale},
		{method: "POST", path: sale + "/pause", roles: merchandiser | operator, about: "stop selling for now",
			action: "sale.pause", change: (*Console).pause},
		{method: "POST", path: sale + "/resume", roles: merchandiser | operator, about: "sell again",
			action: "sale.resume", change: (*Console).resume},
		{method: "POST", path: sale + "/cancel", roles: merchandiser | operator, about: "stop selling for good",
			action: "sale.cancel", change: (*Console).cancel},

		{method: "GET", path: reservation, roles: readers | shop, about: "one reservation", read: (*Console).showReservation},
		{method: "POST", path: reservation + "/confirm", roles: shop | operator, about: "it is paid",
			action: "reservation.confirm", change: (*Console).confirm},
		{method: "POST", path: reservation + "/release", roles: shop | operator, about: "give its units back",
			action: "reservation.release", change: (*Console).release},

		{method: "GET", path: "/api/v1/limits", roles: readers, query: []string{"top"}, about: "the limits of this replica, and who meets them most",
			read: (*Console).listLimits},

		{method: "GET", path: "/api/v1/audit", roles: readers, query: []string{"limit"}, about: "who changed what, newest first",
			read: (*Console).listAudit},
	}
}
