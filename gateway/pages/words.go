package pages

// wording is a refusal in a buyer's words. The problem documents speak to
// programs and name passes and states; a person knows neither.
type wording struct {
	title, sentence string
	fallback        bool // only when the refusal has no sentence of its own
}

// onceOnly follows where the same order may be sent again.
const onceOnly = " Asking again is safe: you cannot buy twice by it."

// buyersWords holds the codes whose own text is not meant for people; ""
// keeps what the refusal says itself.
func buyersWords(code string) wording {
	switch code {
	case "user_required":
		return wording{sentence: "Please sign in first, then come back here."}
	case "not_found":
		return wording{"There is nothing here", "This page does not exist, or it is not meant for you. Please check the address.", true}
	case "sale_ended":
		return wording{"", "Thank you for coming.", true}
	case "internal":
		return wording{"", "That is our fault, not yours. Please try again in a moment.", true}
	case "sale_not_started":
		return wording{sentence: "Please come back when it starts. The sale's page counts down and takes your order from then on."}
	case "upstream_unknown", "outcome_unknown":
		return wording{title: "We do not know yet", sentence: "The shop has not told us yet whether your order went through. We keep what is held for you while we find out."}
	case "upstream_failed":
		return wording{sentence: "Nothing was bought. Please try again in a moment, from the sale's page."}
	case "in_progress":
		return wording{sentence: "The shop is still working on your order."}
	case "inventory_unavailable":
		return wording{title: "One moment, please", sentence: "We cannot look at the stock right now. This attempt ordered nothing."}
	case "overloaded":
		return wording{sentence: "Please try again in a moment. You need not solve the picture again."}
	case "captcha_required":
		return wording{sentence: "Before you order, please type in the digits of the picture on the sale's page."}
	case "captcha_invalid":
		return wording{title: "Please solve a new picture", sentence: "The picture that you solved does not count for this order. Please solve a new one on the sale's page."}
	case "pass_spent":
		return wording{title: "This order is closed", sentence: "To order again, please solve a new picture on the sale's page."}
	case "order_mismatch":
		return wording{title: "This is another order", sentence: "You have ordered already, with another quantity. See your reservation."}
	}
	return wording{}
}
