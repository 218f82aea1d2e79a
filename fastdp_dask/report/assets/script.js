"use strict";
(function () {
  const panel = document.getElementById("one-person");
  if (!panel) return;
  const cap = Number(panel.dataset.shift);
  const slider = document.getElementById("share"), out = document.getElementById("share-text");
  const curves = [panel.querySelector(".with"), panel.querySelector(".without")];
  const density = (x, mean) => Math.exp(-0.5 * (x - mean) ** 2);
  // Abramowitz and Stegun 7.1.26: |error| < 1.5e-7.
  const erf = (x) => {
    const t = 1 / (1 + 0.3275911 * Math.abs(x));
    const tail = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))));
    return Math.sign(x) * (1 - tail * Math.exp(-x * x));
  };
  const guess = (u) => 0.5 + 0.5 * erf(u / (2 * Math.SQRT2));
  const path = (mean) => {
    let d = "";
    for (let k = 0; k <= 160; k++) {
      const x = -4 + k / 20;
      d += (k ? "L" : "M") + (20 + 680 * (x + 4) / 8).toFixed(1) + " " + (232 - 190 * density(x, mean)).toFixed(1);
    }
    return d;
  };
  // The slider runs over powers of ten, from a tenth of what this run allows to 3, or beyond what it allows.
  const top = Math.max(3, 1.5 * cap), low = cap / 10;
  const value = () => low * Math.pow(top / low, Number(slider.value) / 100);
  const start = Math.round((100 * Math.log(cap / low)) / Math.log(top / low));
  const show = () => {
    const here = Number(slider.value) === start, u = here ? cap : value();
    // Both in view, the middle between them: -u/2 and u/2.
    curves[0].setAttribute("d", path(-u / 2));
    curves[1].setAttribute("d", path(u / 2));
    const percent = here ? panel.dataset.guess : (Math.ceil(1e4 * guess(u)) / 100).toFixed(2) + " %";
    const what = "Curves " + u.toPrecision(3) + " standard deviations apart";
    const told = what + ". Who sees one such release and guesses whether the person is in it is right in at most "
      + percent + " of cases; without looking, in 50 %. ";
    const where = here ? "This is the most that this run allows in one release."
      : u < cap ? "This run allows at most " + cap.toPrecision(3) + " in one release."
      : "More than this run allows in one release: noise keeps every person below it.";
    out.textContent = told + where;
    slider.setAttribute("aria-valuetext", what + (here ? ", the most that this run allows in one release" : ""));
  };
  slider.value = start;
  slider.disabled = false;
  slider.addEventListener("input", show);
  show();
})();
