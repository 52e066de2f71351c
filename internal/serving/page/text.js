// What the page does with text and numbers, without a document.

// Lines of a stream of server-sent events, as objects.
export async function* events(body) {
	const reader = body.pipeThrough(new TextDecoderStream()).getReader();
	let text = "";
	for (;;) {
		const { done, value } = await reader.read();
		if (done) return;
		text += value;
		const lines = text.split("\n\n");
		text = lines.pop();
		for (const line of lines) {
			const data = line.replace(/^data: /, "");
			if (data !== "[DONE]") yield JSON.parse(data);
		}
	}
}

// Joiner gives the text of tokens that may be parts of a character: that has the text of its last part.
export class Joiner {
	#decoder = new TextDecoder();
	push(bytes) {
		return this.#decoder.decode(Uint8Array.from(bytes), { stream: true });
	}
	rest() {
		return this.#decoder.decode();
	}
}

// How strongly a token is tinted, from 0 to 1.
export const rarity = logp => Math.min(1, Math.max(0, -logp - 0.05) / 6) ** 0.6;
export const shift = moved => (still(moved) ? 0 : Math.min(1, Math.abs(moved) / 4) ** 0.6);
export const still = moved => Math.abs(moved) < 0.05;

export const percent = logp => {
	const p = 100 * Math.exp(logp);
	return (p >= 99.95 ? p.toFixed(p >= 99.995 ? 0 : 2) : p >= 1 ? p.toFixed(1) : p >= 0.01 ? p.toFixed(2) : p.toExponential(0)) + " %";
};

export const signed = x => (x < 0 ? "-" : "+") + Math.abs(x).toFixed(2);

// A factor as people say it: how many times as likely.
export const times = moved => {
	if (still(moved)) return "about as likely";
	const f = Math.exp(Math.abs(moved)), n = f >= 1000 ? "over 1000" : f >= 10 ? f.toFixed(0) : f.toFixed(1);
	return n + " × " + (moved > 0 ? "likelier" : "less likely");
};

// A token as something to look at: blanks have a shape.
export const visible = text =>
	text === "" ? "(part of a character)" : text.replace(/\n/g, "↵").replace(/\t/g, "⇥").replace(/^ +| +$/g, blanks => "␣".repeat(blanks.length));
