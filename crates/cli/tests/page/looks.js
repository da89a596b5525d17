// What cannot be read or named on the page that is shown.
() => {
  const parts = (colour) => colour.match(/[\d.]+/g).map(Number);
  const channel = (value) => (value / 255 <= 0.04045 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4);
  const luminance = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const background = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = parts(getComputedStyle(at).backgroundColor);
      if (colour.length < 4 || colour[3] > 0) return colour;
    }
    return [255, 255, 255];
  };
  const shown = (element) => element.offsetParent !== null;
  const texts = [...document.querySelectorAll("main *, header *")].filter(
    (element) => shown(element) && [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim()),
  );
  // WCAG 2.2, 1.4.3.
  const pale = texts.filter((element) => {
    const both = [luminance(parts(getComputedStyle(element).color)), luminance(background(element))];
    const [light, dark] = both.sort((a, b) => b - a);
    return (light + 0.05) / (dark + 0.05) < 4.5;
  });
  // WCAG 2.2, 4.1.2: what a screen reader could not name.
  const controls = document.querySelectorAll("button, input:not([type=hidden]), select, progress, [role=img]");
  const nameless = [...controls].filter(
    (element) =>
      !(element.labels?.length || element.textContent.trim() || element.ariaLabel || element.hasAttribute("aria-labelledby")),
  );
  const { scrollWidth, clientWidth } = document.documentElement;
  return [
    ...pale.map((element) => `pale: ${element.outerHTML}`),
    ...nameless.map((element) => `without a name: ${element.outerHTML}`),
    ...(scrollWidth > clientWidth ? [`${scrollWidth} px wide on ${clientWidth}`] : []),
  ];
};
