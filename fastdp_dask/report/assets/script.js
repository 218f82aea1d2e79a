"use strict";
(function () {
  const panel = document.getElementById("one-person");
  if (!panel) return;
  const kind = panel.dataset.kind, cap = Number(panel.dataset.largest);
  const slider = document.getElementById("share"), out = document.getElementById("share-text");
  const curves = [panel.querySelector(".with"), panel.querySelector(".without")];
  const density = (x, mean, sd) => Math.exp(-0.5 * ((x - mean) / sd) ** 2) / sd;
  // Abramowitz and Stegun 7.1.26: |error| < 1.5e-7.
  const erf = (x) => {
    const t = 1 / (1 + 0.3275911 * Math.abs(x));
    const tail = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))));
    return Math.sign(x) * (1 - tail * Math.exp(-x * x));
  };
  const law = (u) => (kind === "variance" ? [0, Math.sqrt(1 - u)] : [u, 1]);
  const guess = (u) => {
    if (u <= 0) return 0.5;
    if (kind === "shift") return 0.5 + 0.5 * erf(u / (2 * Math.SQRT2));
    // The densities of N(0, 1) and N(0, 1 − u) cross at ±c.
    const c = Math.sqrt((-Math.log(1 - u) * (1 - u)) / u), s = Math.sqrt(1 - u);
    return 0.5 + 0.5 * (erf(c / s / Math.SQRT2) - erf(c / Math.SQRT2));
  };
  const height = kind === "variance" ? 64 : 190;
  const path = (mean, sd) => {
    let d = "";
    for (let k = 0; k <= 160; k++) {
      const x = -4 + k / 20;
      d += (k ? "L" : "M") + (20 + 680 * (x + 4) / 8).toFixed(1) + " " + (232 - height * density(x, mean, sd)).toFixed(1);
    }
    return d;
  };
  // The slider runs over powers of ten, from a tenth of the cap of this run to 0.9 (a shift: to 3).
  const top = kind === "variance" ? 0.9 : 3, low = cap / 10;
  const value = () => low * Math.pow(top / low, Number(slider.value) / 100);
  const start = Math.round((100 * Math.log(cap / low)) / Math.log(top / low));
  const show = () => {
    const here = Number(slider.value) === start, u = here ? cap : value(), [mean, sd] = law(u);
    curves[0].setAttribute("d", path(0, 1));
    curves[1].setAttribute("d", path(mean, sd));
    const percent = (p) => (100 * p).toFixed(p < 0.5005 ? 3 : p < 0.51 ? 2 : 1) + " %";
    const what = kind === "variance"
      ? "A share of " + (100 * u).toPrecision(3) + " % of the variance"
      : "A shift of " + u.toPrecision(3) + " standard deviations";
    const told = what + ". Who sees one released number and guesses whether the person is in it is right in at most "
      + percent(guess(u)) + " of cases; without looking, in 50 %. ";
    const where = here ? "This is the most that this run allows." : u < cap
      ? "This run allows at most " + (kind === "variance" ? (100 * cap).toPrecision(3) + " %." : cap.toPrecision(3) + ".")
      : "More than this run allows: noise keeps every person below it.";
    out.textContent = told + where;
    slider.setAttribute("aria-valuetext", what + (here ? ", the most that this run allows" : ""));
  };
  slider.value = start;
  slider.disabled = false;
  slider.addEventListener("input", show);
  show();
})();
